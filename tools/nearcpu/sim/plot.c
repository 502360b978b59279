/* SPDX-License-Identifier: MIT */
/* The figures as one drawing, SVG: what the ids of each policy cost, and how compact they stay. A
 * policy is a row, a load is a point in it. The load that costs most is named, so that no colour
 * has a meaning. */
#include "sim/result.h"

#include <math.h>
#include <stdarg.h>

#define WIDTH 1000
#define HEAD 96
#define ROW 34
#define FOOT 62
#define PANEL 290 /* width of the axes */

struct panel {
	double x;
	const char *title, *unit, *unit_sign;
	double (*value)(const struct sim_result *p);
	/* From here on the axis is logarithmic, with 0 a decade to the left. 0: it is linear. */
	double least;
	double most; /* of all points */
};

static double atomics_of(const struct sim_result *p)
{
	return p->atomics;
}

static double copies_of(const struct sim_result *p)
{
	return 100 * p->copies[COPY_NODE_ID] / p->copies[COPY_CPU];
}

static double place(const struct panel *p, double value)
{
	double decades = 1 + log10(p->most / (p->least > 0 ? p->least : 1));

	if (p->least <= 0)
		return p->x + PANEL * value / p->most;
	return p->x + PANEL * (value < p->least ? 0 : 1 + log10(value / p->least)) / decades;
}

__attribute__((format(printf, 5, 6))) static void put_text(FILE *f, double x, double y,
							   const char *style, const char *fmt, ...)
{
	va_list args;

	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
	va_start(args, fmt);
	vfprintf(f, fmt, args); /* NOLINT: started above */
	va_end(args);
	fprintf(f, "</text>\n");
}

static void put_line(FILE *f, double x, double y, double x2, double y2, const char *colour)
{
	fprintf(f, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x, y, x2, y2, colour);
}

static void put_tick(FILE *f, const struct panel *p, double value, double bottom)
{
	put_line(f, place(p, value), HEAD, place(p, value), bottom, "#ccc");
	put_text(f, place(p, value), bottom + 18, "text-anchor=\"middle\"", "%g%s", value,
		 p->unit_sign);
}

static void put_axis(FILE *f, struct panel *p, const struct sim_report *r, double bottom)
{
	double step = 25;

	p->most = p->least > 0 ? 1 : 100;
	for (unsigned load = 0; load < r->load_count; load++)
		for (unsigned i = 0; i < r->policy_count; i++)
			p->most = fmax(p->most, p->value(&r->results[load][i]));
	while (p->most / step > 6)
		step *= 2;
	put_text(f, p->x, HEAD - 34, "font-weight=\"bold\"", "%s", p->title);
	put_text(f, p->x, HEAD - 15, "", "%s", p->unit);
	put_tick(f, p, 0, bottom);
	for (double v = p->least > 0 ? p->least : step; v <= p->most * 1.001;
	     v = p->least > 0 ? v * 10 : v + step)
		put_tick(f, p, v, bottom);
	if (p->least > 0)
		put_text(f, p->x, bottom + 40, "", "logarithmic, with 0 at its left");
}

static void put_point(FILE *f, double x, double y, const char *colour)
{
	fprintf(f, "<circle cx=\"%.2f\" cy=\"%.1f\" r=\"4.5\" stroke=\"#000\" fill=\"%s\"/>\n", x,
		y, colour);
}

static void put_row(FILE *f, const struct panel *p, const struct sim_report *r, unsigned policy,
		    double y)
{
	double low = p->most, high = -1;
	unsigned worst = 0;

	for (unsigned load = 0; load < r->load_count; load++) {
		double value = p->value(&r->results[load][policy]);

		low = fmin(low, value);
		worst = value > high ? load : worst;
		high = fmax(high, value);
	}
	put_line(f, place(p, low), y, place(p, high), y, "#777");
	for (unsigned load = 0; load < r->load_count; load++)
		put_point(f, place(p, p->value(&r->results[load][policy])), y, "#fff");
	put_point(f, place(p, high), y, "#000");
	put_text(f, place(p, high) + 9, y + 4, "", "%s %.*g%s", r->loads[worst]->name,
		 p->least > 0 ? 2 : 3, high, p->unit_sign);
}

void sim_plot(const struct sim_report *r, FILE *f)
{
	struct panel panels[] = {{120, "Atomic operations per context switch",
				  "fewer: fewer cache lines move", "", atomics_of, 1e-4, 0},
				 {590, "Copies of data for each (node, id)",
				  "% of the copies for each CPU; fewer: more compact", " %",
				  copies_of, 0, 0}};
	double bottom = HEAD + r->policy_count * ROW;

	fprintf(f,
		"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %g\" "
		"font-family=\"sans-serif\" font-size=\"13\">\n"
		"<rect width=\"%d\" height=\"%g\" fill=\"#fff\"/>\n",
		WIDTH, bottom + FOOT, WIDTH, bottom + FOOT);
	put_text(f, 20, 26, "font-size=\"16\"",
		 "What concurrency ids cost by policy, %u CPUs, %u nodes: a point is a load, "
		 "the worst is named",
		 r->params.cpus, r->params.nodes);
	for (unsigned k = 0; k < sizeof(panels) / sizeof(*panels); k++) {
		put_axis(f, &panels[k], r, bottom);
		for (unsigned i = 0; i < r->policy_count; i++)
			put_row(f, &panels[k], r, i, HEAD + (i + .5) * ROW);
	}
	for (unsigned i = 0; i < r->policy_count; i++)
		put_text(f, 108, HEAD + (i + .5) * ROW + 4, "text-anchor=\"end\"", "%s",
			 r->policies[i].name);
	fprintf(f, "</svg>\n");
}
