/* SPDX-License-Identifier: MIT */
/* Tables and suites in the page, and escaped text. */
#include "bench/suite.h"

#include <string.h>

static const char *const roles[] = {"peer", "ours", "yardstick"};

void html_text(FILE *f, const char *text)
{
	static const char *const names['>' + 1] = {
		['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;"};

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < BENCH_COUNT(names) && names[c])
			fputs(names[c], f);
		else
			fputc(c, f);
	}
}

static void row(FILE *f, const struct table_result *t, const struct row_result *r,
		const struct column *const *columns, size_t n)
{
	fprintf(f, "<tr class=\"%s%s\"><th scope=\"row\">", roles[r->row->role],
		r->count && r->row->role == BENCH_OURS && row_loses(t, r) ? " loss" : "");
	html_text(f, r->row->label);
	fprintf(f, "%s%s</th>", r->row->role == BENCH_YARDSTICK ? " *" : "",
		row_is_scaled(t, r) ? " ~" : "");
	if (!r->count) {
		fprintf(f, "<td class=\"why\" colspan=\"%zu\">%s: ", n,
			r->failed ? "failed" : "not measured");
		html_text(f, r->note);
		fprintf(f, "</td>");
	}
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
	fprintf(f, "<div class=\"scroll\"><table><caption>");
	html_text(f, line);
	fprintf(f, "</caption>\n<thead><tr><td></td>");
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
	fprintf(f, "<li>");
	html_text(f, line + strspn(line, " "));
	fprintf(f, ": <span class=\"%s\">%s</span></li>\n", end + 2, end + 2);
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

void html_table(FILE *f, const struct table_result *t, size_t number, const char *svg)
{
	char line[1200];

	table_title(t, line, sizeof(line));
	fprintf(f, "<section id=\"t%zu\"><h2>", number);
	html_text(f, line);
	fprintf(f, "</h2>\n<p>");
	html_text(f, t->bench->text);
	table_verdict(t, line, sizeof(line));
	fprintf(f, "</p>\n<p class=\"verdict%s\">", table_loses(t) ? " loss" : "");
	html_text(f, line);
	fprintf(f, "</p>\n");
	chart(f, svg);
	table(f, t);
	fprintf(f, "<ul class=\"figures\">\n");
	for (size_t i = 0; i < t->bench->figure_count; i++)
		figure(f, t, &t->bench->figures[i]);
	fprintf(f, "</ul></section>\n");
}

/* ---- suites ---- */

/* Better or worse than the first column only beyond doubt. */
static const char *class_of(struct spread s)
{
	return s.high < 0.98 ? "better" : s.low > 1.02 ? "worse" : "even";
}

static void cell(FILE *f, const struct table_result *t, size_t row, enum suite_measure m)
{
	struct spread s;

	if (suite_ratio(t, row, m, &s)) {
		fprintf(f, "<td class=\"%s\" title=\"%.2f to %.2f\">%.2f</td>", class_of(s), s.low,
			s.high, s.median);
		return;
	}
	fprintf(f, "<td class=\"soft\" title=\"");
	html_text(f, t->rows[row].note);
	fprintf(f, "\">%s</td>", t->rows[row].failed ? "failed" : "-");
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

static void suite_row(FILE *f, const struct table_result *t, enum suite_measure m)
{
	fprintf(f, "<tr><th scope=\"row\" title=\"");
	html_text(f, t->bench->title);
	fprintf(f, "\">%s</th><td>%u</td>", t->bench->part, t->threads);
	if (t->rows[0].count)
		fprintf(f, "<td>%.*f</td>", suite_texts[m].decimals, suite_value(t, 0, m).median);
	else
		fprintf(f, "<td class=\"soft\">%s</td>", t->rows[0].failed ? "failed" : "-");
	for (size_t i = 1; i < t->bench->row_count; i++)
		cell(f, t, i, m);
	if (suite_has_bounds(t, m))
		bound(f, t);
	fprintf(f, "</tr>\n");
}

static void means(FILE *f, const struct suite *s, enum suite_measure m, unsigned threads)
{
	const struct table_result *first = suite_first(s);

	fprintf(f, "<tr class=\"mean\"><th scope=\"row\">geometric mean</th><td>");
	if (threads)
		fprintf(f, "%u", threads);
	else
		fprintf(f, "all");
	fprintf(f, "</td><td></td>");
	for (size_t i = 1; i < first->bench->row_count; i++) {
		struct suite_mean mean = suite_mean(s, i, m, threads);

		if (mean.lines)
			fprintf(f, "<td>%.2f</td>", mean.mean);
		else
			fprintf(f, "<td>-</td>");
	}
	fprintf(f, "</tr>\n");
}

static void matrix(FILE *f, const struct suite *s, enum suite_measure m)
{
	const struct table_result *first = suite_first(s);
	unsigned threads[MAX_THREAD_COUNTS];
	size_t n = suite_threads(s, m, threads);
	char text[800];

	fprintf(f, "<h3>%s</h3>\n", suite_texts[m].title);
	if (suite_verdict(s, m, text, sizeof(text))) {
		fprintf(f, "<p class=\"verdict%s\">", suite_loses(s, m) ? " loss" : "");
		html_text(f, text);
		fprintf(f, "</p>\n");
	}
	fprintf(f,
		"<div class=\"scroll\"><table><thead><tr><td></td><th scope=\"col\">threads</th>"
		"<th scope=\"col\">%s, %s</th>",
		first->rows[0].row->name, suite_texts[m].unit);
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

void suite_html(FILE *f, const struct report *report)
{
	for (const struct suite_kind *kind = suite_kinds; kind->name; kind++) {
		struct suite s = {kind, report};

		if (!suite_first(&s))
			continue;
		fprintf(f, "<section id=\"%s\"><h2>%s</h2>\n<p>%s</p>\n", kind->name, kind->title,
			kind->text);
		for (size_t i = 0; i < kind->measure_count; i++)
			if (suite_shown(&s, kind->measures[i]))
				matrix(f, &s, kind->measures[i]);
		fprintf(f, "</section>\n");
	}
}
