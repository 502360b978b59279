/* SPDX-License-Identifier: MIT */
/* The figures as a drawing, SVG: of each load the profile and the copies in use. Lengths of bars
 * are linear, from 0. */
#include "sim/result.h"

#include <math.h>
#include <stdarg.h>

#define WIDTH 1200
#define LABEL 120   /* of a policy, before its bars */
#define COPIES 760  /* where the second panel begins */
#define PANEL 480   /* the longest bar of the first */
#define PANEL_2 320 /* and of the second, before its number */
#define BAR 11
#define ROW (5 * BAR)
#define HEAD 30   /* of a load */
#define LEGEND 40 /* of the drawing */

static const char *const colours[ROW_COUNT] = {"#9aa3ad", "#1f9d73", "#5fb7d4",
					       "#8e6fb8", "#c39a3b", "#c0504d",
					       "#7d5a3c", "#e08fb0", "#404a55"};
static const char *const kinds[COPY_KINDS] = {"cpu", "thread", "cid", "(node, cid)"};

static void put_bar(FILE *f, double x, double y, double width, double height, const char *colour)
{
	fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%g\" fill=\"%s\"/>\n", x, y,
		width, height, colour);
}

__attribute__((format(printf, 5, 6))) static void put_text(FILE *f, double x, double y,
							   const char *anchor, const char *fmt, ...)
{
	va_list args;

	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	va_start(args, fmt);
	vfprintf(f, fmt, args); /* NOLINT: started above */
	va_end(args);
	fprintf(f, "</text>\n");
}

static void put_legend(FILE *f)
{
	for (unsigned i = 0; i < ROW_COUNT; i++) {
		put_bar(f, 10 + i % 5 * 145, 6 + i / 5 * 16, 10, 10, colours[i]);
		put_text(f, 24 + i % 5 * 145, 15 + i / 5 * 16, "start", "%s", sim_rows[i].key);
	}
	for (unsigned i = 0; i < COPY_KINDS; i++) {
		put_bar(f, COPIES + 10 + i * 100, 6, 10, 10, colours[i]);
		put_text(f, COPIES + 24 + i * 100, 15, "start", "per %s", kinds[i]);
	}
}

static void put_policy(FILE *f, const struct sim_result *p, double y, double most)
{
	double x = LABEL;

	put_text(f, LABEL - 8, y + 2 * BAR + 4, "end", "%s", p->policy.name);
	for (unsigned i = 0; i < ROW_COUNT; i++) {
		put_bar(f, x, y + 2, p->row[i] / 100 * PANEL, 3.5 * BAR, colours[i]);
		x += p->row[i] / 100 * PANEL;
	}
	put_text(f, COPIES - 8, y + 2 * BAR + 4, "end", "%s", p->policy.name);
	for (unsigned i = 0; i < COPY_KINDS; i++) {
		double width = p->copies[i] / most * PANEL_2;

		put_bar(f, COPIES, y + i * BAR, width, BAR - 1, colours[i]);
		put_text(f, COPIES + width + 4, y + (i + 1) * BAR - 1, "start", "%.0f",
			 p->copies[i]);
	}
}

static void put_load(FILE *f, const struct sim_report *r, unsigned load, double y)
{
	double most = 1;

	put_text(f, LABEL, y + HEAD - 10, "start", "%s: %% of operations", r->loads[load]->name);
	put_text(f, COPIES, y + HEAD - 10, "start", "%s: copies in use", r->loads[load]->name);
	for (unsigned i = 0; i < r->policy_count; i++)
		for (unsigned kind = 0; kind < COPY_KINDS; kind++)
			most = fmax(most, r->results[load][i].copies[kind]);
	for (unsigned i = 0; i < r->policy_count; i++)
		put_policy(f, &r->results[load][i], y + HEAD + i * ROW, most);
}

void sim_plot(const struct sim_report *r, FILE *f)
{
	unsigned each = HEAD + r->policy_count * ROW, height = LEGEND + r->load_count * each;

	fprintf(f,
		"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" "
		"font-family=\"sans-serif\" font-size=\"11\">\n",
		WIDTH, height);
	put_bar(f, 0, 0, WIDTH, height, "#fff");
	put_legend(f);
	for (unsigned load = 0; load < r->load_count; load++)
		put_load(f, r, load, LEGEND + load * each);
	fprintf(f, "</svg>\n");
}
