/* SPDX-License-Identifier: MIT */
/* The page: the machine, an overview, each table, the suites. */
#include "bench/suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* As a text between tags or in quotes. A character becomes at most six. */
struct escaped {
	char text[8192];
};

static struct escaped escape(const char *text)
{
	static const char *const names['>' + 1] = {
		['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;"};
	struct escaped out;
	size_t n = 0;

	for (; *text && n < sizeof(out.text) - 7; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < BENCH_COUNT(names) && names[c])
			n = (size_t)(stpcpy(out.text + n, names[c]) - out.text);
		else
			out.text[n++] = *text;
	}
	out.text[n] = 0;
	return out;
}
#define ESCAPED(string) escape(string).text

static void term(FILE *f, const char *name, const char *text)
{
	fprintf(f, "<dt>%s</dt><dd>%s</dd>\n", name, ESCAPED(text));
}

static void machine(FILE *f, const struct machine *m)
{
	const struct near_rseq_status *st = &m->rseq;
	char line[400];

	fprintf(f, "<dl>\n");
	term(f, "Processor", m->processor);
	snprintf(line, sizeof(line),
		 "%u possible, %u online, %u allowed; %u node%s; %.1f GiB of memory",
		 m->possible.count, m->online.count, m->allowed.count, st->nodes,
		 st->nodes == 1 ? "" : "s", (double)m->memory_bytes / (1 << 30));
	term(f, "CPUs", line);
	snprintf(line, sizeof(line), "%s %s, %s", m->kernel.sysname, m->kernel.release,
		 m->kernel.machine);
	term(f, "Kernel", line);
	term(f, "C library", m->libc);
	snprintf(line, sizeof(line), "%s: %s", st->live ? "live" : "not live", st->why);
	term(f, "rseq", line);
	snprintf(line, sizeof(line), "%u by %s: %s", st->slots, machine_slot_kind(st->slot_kind),
		 st->slot_why);
	term(f, "Slots", line);
	if (m->conf)
		term(f, "NEAR_CONF", m->conf);
	term(f, "Built by", COMPILER);
	fprintf(f, "</dl>\n");
}

static void head(FILE *f, const struct report *report)
{
	const struct machine *m = &report->machine;
	char when[64], line[400];

	strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", gmtime(&report->started));
	fprintf(f,
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
		"<title>nearcpu bench: %s</title>\n<style>%s</style></head>\n<body><main>\n"
		"<h1>nearcpu bench</h1>\n",
		ESCAPED(m->processor), html_style);
	fprintf(f, "<p class=\"lead\">%s, %u CPU%s, on %s. nearcpu %s, %.0f seconds%s.</p>\n",
		ESCAPED(m->processor), m->allowed.count, m->allowed.count == 1 ? "" : "s", when,
		NEARCPU_VERSION, report->seconds,
		report->options.quick ? ", short measurements (--quick)" : "");
	if (load_warning(&report->load, line, sizeof(line)))
		fprintf(f, "<p><strong>%s</strong></p>\n", line);
	if (!m->has_gnuplot)
		fprintf(f, "<p>There are no charts: gnuplot is not installed.</p>\n");
}

static void overview_row(FILE *f, const struct table_result *t, size_t number)
{
	const struct row_result *own = default_row(t), *best = own ? best_other(t, own) : NULL;
	char title[160];

	table_title(t, title, sizeof(title));
	fprintf(f, "<tr><th scope=\"row\"><a href=\"#t%zu\">%s</a></th><td>%s</td><td>%s</td>",
		number, ESCAPED(title),
		own ? say_cost(t->bench->kind, row_cost(t, own).median).text : "-",
		own ? ESCAPED(own->row->label) : "-");
	if (best)
		fprintf(f, "<td>%s</td><td>%s</td><td%s>%s</td></tr>\n",
			say_cost(t->bench->kind, row_cost(t, best).median).text,
			ESCAPED(best->row->label), row_loses(t, own) ? " class=\"worse\"" : "",
			say_ratio(cost_ratio(t, best, own).median).text);
	else
		fprintf(f, "<td>-</td><td>-</td><td>-</td></tr>\n");
}

/* What every table has, before the first of them. */
static void legend(FILE *f)
{
	fprintf(f,
		"<dl class=\"legend\">\n"
		"<dt>ratio</dt><dd>how many operations a row does for the cost of one of the "
		"best other row: above 1 is a gain, below 1 a loss. 1/8 is one operation for the "
		"cost of eight. Where a table compares with another row or measure, it names "
		"it.</dd>\n"
		"<dt>*</dt><dd>a yardstick: it does less than the others, and shows what the "
		"rest costs. It is not one of the others.</dd>\n"
		"<dt>~</dt><dd>it ran fewer operations; its times are in proportion.</dd>\n"
		"<dt>reached, missed</dt><dd>whether this run kept a bound that the project set "
		"itself beforehand.</dd>\n"
		"<dt>spread</dt><dd>the distance of the quartiles in proportion to the "
		"median.</dd></dl>\n");
}

static void overview(FILE *f, const struct report *report)
{
	legend(f);
	fputs("<div class=\"scroll\"><table><caption>What a program gets of nearcpu without "
	      "settings, next to the cheapest of the others.</caption>\n<thead><tr><td></td>"
	      "<th scope=\"col\">nearcpu</th><th scope=\"col\">its row</th>"
	      "<th scope=\"col\">best other</th><th scope=\"col\">which other</th>"
	      "<th scope=\"col\">ratio</th></tr></thead>\n<tbody>\n",
	      f);
	for (size_t i = 0; i < report->count; i++)
		if (!report->tables[i].bench->together)
			overview_row(f, &report->tables[i], i);
	fprintf(f, "</tbody></table></div>\n");
}

static void row(FILE *f, const struct table_result *t, const struct row_result *r,
		const struct column *const *columns, size_t n)
{
	bool loses = r->count && r->row->role == BENCH_OURS && row_loses(t, r);

	fprintf(f, "<tr class=\"%s%s\"><th scope=\"row\">%s%s%s</th>", role_names[r->row->role],
		loses ? " loss" : "", ESCAPED(r->row->label),
		r->row->role == BENCH_YARDSTICK ? " *" : "", row_is_scaled(t, r) ? " ~" : "");
	if (!r->count)
		fprintf(f, "<td class=\"why\" colspan=\"%zu\">%s: %s</td>", n,
			r->failed ? "failed" : "not measured", ESCAPED(r->note));
	for (size_t i = 0; i < n && r->count; i++)
		fprintf(f, "<td>%s</td>", column_cell(columns[i], t, r).text);
	fprintf(f, "</tr>\n");
}

static void table(FILE *f, const struct table_result *t)
{
	const struct column *columns[MAX_COLUMNS];
	size_t n = table_columns(t, columns);
	char line[200];

	table_conditions(t, line, sizeof(line));
	fprintf(f, "<div class=\"scroll\"><table><caption>%s</caption>\n<thead><tr><td></td>",
		ESCAPED(line));
	for (size_t i = 0; i < n; i++)
		fprintf(f, "<th scope=\"col\">%s</th>", columns[i]->head);
	fprintf(f, "</tr></thead>\n<tbody>\n");
	for (size_t i = 0; i < t->bench->row_count; i++)
		row(f, t, &t->rows[i], columns, n);
	fprintf(f, "</tbody></table></div>\n");
}

static void figure(FILE *f, const struct table_result *t, const struct bench_figure *figure)
{
	char line[300], *end;

	if (!figure_line(t, figure, line, sizeof(line)))
		return;
	end = strrchr(line, ':');
	*end = 0;
	fprintf(f, "<li>%s: <span class=\"%s\">%s</span></li>\n", ESCAPED(line + strspn(line, " ")),
		end + 2, end + 2);
}

static void chart(FILE *f, const char *svg)
{
	static const char keys[] = "<span class=\"key peer\"></span>others"
				   "<span class=\"key ours\"></span>nearcpu"
				   "<span class=\"key yardstick\"></span>yardstick";

	if (svg)
		fprintf(f, "<figure>\n%s<figcaption>%s. Shorter is better.</figcaption></figure>\n",
			svg, keys);
}

/* Heading, what is measured, what it shows, chart, table, figures. `svg`: the chart, or NULL. */
static void section(FILE *f, const struct table_result *t, size_t number, const char *svg)
{
	char title[160], verdict[1200];

	table_title(t, title, sizeof(title));
	table_verdict(t, verdict, sizeof(verdict));
	fprintf(f, "<section id=\"t%zu\"><h2>%s</h2>\n<p>%s</p>\n", number, ESCAPED(title),
		ESCAPED(t->bench->text));
	fprintf(f, "<p class=\"verdict%s\">%s</p>\n", table_loses(t) ? " loss" : "",
		ESCAPED(verdict));
	chart(f, svg);
	table(f, t);
	fprintf(f, "<ul class=\"figures\">\n");
	for (size_t i = 0; i < t->bench->figure_count; i++)
		figure(f, t, &t->bench->figures[i]);
	fprintf(f, "</ul></section>\n");
}

static int sections(FILE *f, const struct report *report)
{
	int err;

	for (size_t i = 0; i < report->count; i++) {
		char *svg = NULL;

		if (report->tables[i].bench->together)
			continue;
		err = report->machine.has_gnuplot ? plot_svg(&report->tables[i], &svg) : 0;

		if (err)
			return err;
		section(f, &report->tables[i], i, svg);
		free(svg);
	}
	return 0;
}

/* ---- suites ---- */

/* Better or worse than the first column only beyond doubt. */
static const char *class_of(struct spread s)
{
	return s.high < 0.98 ? "better" : s.low > 1.02 ? "worse" : "even";
}

static void cell(FILE *f, const struct table_result *t, size_t row, const struct suite_measure *m)
{
	struct spread s;

	if (suite_ratio(t, row, m, &s))
		fprintf(f, "<td class=\"%s\" title=\"%.2f to %.2f\">%.2f</td>", class_of(s), s.low,
			s.high, s.median);
	else
		fprintf(f, "<td class=\"soft\" title=\"%s\">%s</td>", ESCAPED(t->rows[row].note),
			t->rows[row].failed ? "failed" : "-");
}

static void bound(FILE *f, const struct table_result *t)
{
	double goal;
	const char *verdict = suite_bound(t, &goal);

	if (verdict)
		fprintf(f, "<td><span class=\"%s\">%.2f %s</span></td>", verdict, goal, verdict);
	else
		fprintf(f, "<td></td>");
}

static void suite_row(FILE *f, const struct table_result *t, const struct suite_measure *m)
{
	fprintf(f, "<tr><th scope=\"row\" title=\"%s\">%s</th><td>%u</td>",
		ESCAPED(t->bench->title), t->bench->part, t->threads);
	if (t->rows[0].count)
		fprintf(f, "<td>%.*f</td>", m->decimals,
			row_measure_of(t, &t->rows[0], m->of).median);
	else
		fprintf(f, "<td class=\"soft\">%s</td>", t->rows[0].failed ? "failed" : "-");
	for (size_t i = 1; i < t->bench->row_count; i++)
		cell(f, t, i, m);
	if (suite_has_bounds(t, m))
		bound(f, t);
	fprintf(f, "</tr>\n");
}

static void means(FILE *f, const struct suite *s, const struct suite_measure *m, unsigned threads)
{
	const struct table_result *first = suite_first(s);

	fprintf(f, "<tr class=\"mean\"><th scope=\"row\">geometric mean</th><td>%s</td><td></td>",
		threads ? word("%u", threads).text : "all");
	for (size_t i = 1; i < first->bench->row_count; i++) {
		struct suite_mean mean = suite_mean(s, i, m, threads);

		fprintf(f, "<td>%s</td>", mean.lines ? word("%.2f", mean.mean).text : "-");
	}
	fprintf(f, "</tr>\n");
}

static void matrix(FILE *f, const struct suite *s, const struct suite_measure *m)
{
	const struct table_result *first = suite_first(s);
	unsigned threads[MAX_THREAD_COUNTS];
	size_t n = suite_threads(s, m, threads);
	char text[800];

	fprintf(f, "<h3>%s</h3>\n", m->title);
	if (suite_verdict(s, m, text, sizeof(text)))
		fprintf(f, "<p class=\"verdict%s\">%s</p>\n", suite_loses(s, m) ? " loss" : "",
			ESCAPED(text));
	fprintf(f,
		"<div class=\"scroll\"><table><thead><tr><td></td><th scope=\"col\">threads</th>"
		"<th scope=\"col\">%s, %s</th>",
		first->rows[0].row->name, m->unit);
	for (size_t i = 1; i < first->bench->row_count; i++)
		fprintf(f, "<th scope=\"col\">%s</th>", first->rows[i].row->name);
	if (suite_has_bounds(first, m))
		fprintf(f, "<th scope=\"col\">at most</th>");
	fprintf(f, "</tr></thead>\n<tbody>\n");
	for (size_t i = 0; i < s->report->count; i++)
		if (suite_line(s, i) && suite_shows(suite_line(s, i), m))
			suite_row(f, suite_line(s, i), m);
	means(f, s, m, 0);
	for (size_t i = 0; i < n; i++)
		means(f, s, m, threads[i]);
	fprintf(f, "</tbody></table></div>\n");
}

static void suites(FILE *f, const struct report *report)
{
	for (const struct suite_kind *kind = suite_kinds; kind->name; kind++) {
		struct suite s = {kind, report};

		if (!suite_first(&s))
			continue;
		fprintf(f, "<section id=\"%s\"><h2>%s</h2>\n<p>%s</p>\n", kind->name, kind->title,
			kind->text);
		for (size_t i = 0; i < kind->measure_count; i++)
			if (suite_shown(&s, &kind->measures[i]))
				matrix(f, &s, &kind->measures[i]);
		fprintf(f, "</section>\n");
	}
}

static void foot(FILE *f)
{
	fprintf(f,
		"<footer class=\"soft\"><p>Each measurement ran in a process of its own, started "
		"with the row's settings; the repetitions of a table's rows were interleaved. "
		"Costs are CPU time (user and system) of all threads, of locks, parking and "
		"atomics wall time; shown are medians.</p></footer>\n</main></body></html>\n");
}

int report_html(const struct report *report, char **out)
{
	size_t size;
	FILE *f = open_memstream(out, &size);
	int err;

	if (!f)
		return -ENOMEM;
	head(f, report);
	machine(f, &report->machine);
	overview(f, report);
	err = sections(f, report);
	suites(f, report);
	foot(f);
	if (fclose(f) && !err)
		err = -ENOMEM;
	if (err) {
		free(*out);
		*out = NULL;
	}
	return err;
}
