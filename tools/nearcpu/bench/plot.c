/* SPDX-License-Identifier: MIT */
/* A bar chart of a table, drawn by gnuplot, as an SVG element for the page.
 *
 * The bars' colours are seen on white and on black; ink and lines follow the reader's scheme.
 */
#include "common/child.h"
#include "bench/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define WIDTH 860
#define BAR_HEIGHT 30
#define FRAME_HEIGHT 62
#define LOG_FROM 12 /* longest bar over shortest: beyond this short ones cannot be compared */
#define TIMEOUT_S 30

static const char *const colours[] = {
	[BENCH_PEER] = "#7d8794", [BENCH_OURS] = "#1f9d73", [BENCH_YARDSTICK] = "#c39a3b"};

static const char style[] = "<style>.plot text{fill:#1c2024;font-family:system-ui,sans-serif}"
			    ".plot path[stroke]{stroke:#cdd3d9}"
			    "@media(prefers-color-scheme:dark){.plot text{fill:#e4e7ea}"
			    ".plot path[stroke]{stroke:#3d454d}}"
			    "</style>";

/* Within double quotes of gnuplot, and of SVG, which it does not escape. */
static void put_quoted(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++)
		if (!strchr("\"\\<>&`", *text))
			fputc(*text, f);
	fputc('"', f);
}

struct range {
	double min, max;
	unsigned rows;
};

static struct range range_of(const struct table_result *t)
{
	struct range range = {0};

	for (size_t i = 0; i < t->bench->row_count; i++) {
		double cost = row_cost(t, &t->rows[i]).median;

		if (!t->rows[i].count || cost <= 0)
			continue;
		if (!range.rows || cost < range.min)
			range.min = cost;
		if (cost > range.max)
			range.max = cost;
		range.rows++;
	}
	return range;
}

static void put_frame(FILE *f, const struct table_result *t, const struct range *range)
{
	bool logarithmic = range->max / range->min > LOG_FROM;
	const char *unit = t->bench->kind == BENCH_MEMORY ? "bytes"
			   : t->bench->kind == BENCH_WAIT ? "ns of wall time,"
							  : "ns of CPU time,";

	fprintf(f,
		"set terminal svg size %d,%u dynamic noenhanced font 'sans-serif,13'\n"
		"unset key\nset border 0\nset style fill solid 1 noborder\n"
		"set lmargin 25\nset rmargin 2\nset tmargin 0.5\n"
		"set xtics nomirror scale 0\nunset mxtics\nset grid xtics lt 1 lc '#9aa3ad'\n"
		"set ytics nomirror scale 0\nset yrange [%u.5:-0.5]\n",
		WIDTH, FRAME_HEIGHT + BAR_HEIGHT * range->rows, range->rows - 1);
	if (logarithmic)
		fprintf(f, "set logscale x\nset xrange [%g:%g]\n", range->min / 2.5,
			range->max * 3);
	else
		fprintf(f, "set xrange [0:%g]\n", range->max * 1.14);
	fprintf(f, "set xlabel '%s %s%s'\nlow = %g\nset ytics ()\n", unit, t->bench->op,
		logarithmic ? " (logarithmic: each line is ten times the one before)" : "",
		logarithmic ? range->min / 2.5 : 0.0);
}

static void put_rows(FILE *f, const struct table_result *t, bool labels)
{
	unsigned at = 0;

	for (size_t i = 0; i < t->bench->row_count; i++) {
		const struct row_result *r = &t->rows[i];
		double cost = row_cost(t, r).median;
		struct word say = say_cost(t->bench->kind, cost);
		char title[96];

		if (!r->count || cost <= 0)
			continue;
		snprintf(title, sizeof(title), "%s: %s", r->row->label, say.text);
		if (labels) {
			fprintf(f, "set label ");
			put_quoted(f, say.text);
			fprintf(f, " at %g,%u left offset 0.6,0\nset ytics add (", cost, at);
			put_quoted(f, r->row->label);
			fprintf(f, " %u)\n", at);
		} else {
			fprintf(f,
				"%s'+' every ::0::0 using (%g):(%u):(low):(%g):(%u-0.33):(%u+0.33) "
				"with boxxyerror lc rgb '%s' title ",
				at ? ", " : "plot ", cost, at, cost, at, at, colours[r->row->role]);
			put_quoted(f, title);
		}
		at++;
	}
	fputc('\n', f);
}

static char *script(const struct table_result *t, const struct range *range)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	put_frame(f, t, range);
	put_rows(f, t, true);
	put_rows(f, t, false);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

/* What gnuplot drew, in an element without the head, the unused symbols and their ids, which would
 * be in the page several times. */
static char *element(const struct table_result *t, const struct range *range, const char *svg)
{
	const char *from = strstr(svg, "</defs>"), *end = strstr(svg, "</svg>");
	char *text = NULL, title[120];
	size_t size;
	FILE *f;

	if (!from || !end || end < from)
		return NULL;
	from += strlen("</defs>");
	f = open_memstream(&text, &size);
	if (!f)
		return NULL;
	table_title(t, title, sizeof(title));
	fprintf(f,
		"<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" "
		"role=\"img\" aria-label=\"Bar chart: %s\">%s\n<g>",
		WIDTH, FRAME_HEIGHT + BAR_HEIGHT * range->rows, title, style);
	while (from < end) {
		const char *id = strstr(from, " id=\"");

		if (!id || id > end)
			id = end;
		fwrite(from, 1, (size_t)(id - from), f);
		from = id == end ? end : strchr(id + 5, '"') + 1;
	}
	fprintf(f, "</svg>\n");
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

int plot_svg(const struct table_result *t, char **out)
{
	static const char *const argv[] = {"gnuplot", "-", NULL};
	struct child child = {.argv = argv, .timeout_s = TIMEOUT_S};
	struct child_result result;
	struct range range = range_of(t);
	char *input;
	int err;

	*out = NULL;
	if (!range.rows)
		return 0;
	input = script(t, &range);
	if (!input)
		return -ENOMEM;
	child.input = input;
	err = child_run(&child, &result);
	free(input);
	if (!err && WIFEXITED(result.status) && !WEXITSTATUS(result.status))
		*out = element(t, &range, result.out);
	free(result.out);
	/* Without gnuplot, or with one that fails, the page has its tables. */
	return err == -EINTR ? err : 0;
}
