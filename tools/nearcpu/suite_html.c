/* SPDX-License-Identifier: MIT */
#include "suite.h"

#include "html.h"

/* Better and worse than the first column are told apart beyond doubt only. */
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

static void line(FILE *f, const struct table_result *t, enum suite_measure m)
{
	fprintf(f, "<tr><th scope=\"row\" title=\"");
	html_text(f, t->bench->title);
	fprintf(f, "\">%s</th><td>%u</td>", t->bench->part, t->threads);
	if (t->rows[0].count)
		fprintf(f, "<td>%.*f</td>", m == SUITE_MEMORY, suite_value(t, 0, m).median);
	else
		fprintf(f, "<td class=\"soft\">%s</td>", t->rows[0].failed ? "failed" : "-");
	for (size_t i = 1; i < t->bench->row_count; i++)
		cell(f, t, i, m);
	fprintf(f, "</tr>\n");
}

static void means(FILE *f, const struct report *report, enum suite_measure m, unsigned threads)
{
	const struct table_result *first = suite_first(report);

	fprintf(f, "<tr class=\"ours\"><th scope=\"row\">geometric mean</th><td>");
	if (threads)
		fprintf(f, "%u", threads);
	else
		fprintf(f, "all");
	fprintf(f, "</td><td></td>");
	for (size_t i = 1; i < first->bench->row_count; i++) {
		struct suite_mean mean = suite_mean(report, i, m, threads);

		if (mean.lines)
			fprintf(f, "<td>%.2f</td>", mean.mean);
		else
			fprintf(f, "<td>-</td>");
	}
	fprintf(f, "</tr>\n");
}

static void matrix(FILE *f, const struct report *report, enum suite_measure m)
{
	const struct table_result *first = suite_first(report);
	unsigned threads[MAX_THREAD_COUNTS];
	size_t n = suite_threads(report, threads);
	char text[800];

	fprintf(f, "<h3>%s</h3>\n", suite_title(m));
	if (suite_verdict(report, m, text, sizeof(text))) {
		fprintf(f, "<p class=\"verdict\">");
		html_text(f, text);
		fprintf(f, "</p>\n");
	}
	fprintf(f,
		"<div class=\"scroll\"><table><thead><tr><td></td><th scope=\"col\">threads</th>"
		"<th scope=\"col\">%s, %s</th>",
		first->rows[0].row->name, suite_unit(m));
	for (size_t i = 1; i < first->bench->row_count; i++)
		fprintf(f, "<th scope=\"col\">%s</th>", first->rows[i].row->name);
	fprintf(f, "</tr></thead>\n<tbody>\n");
	for (size_t i = 0; i < report->count; i++)
		if (suite_has(&report->tables[i]))
			line(f, &report->tables[i], m);
	means(f, report, m, 0);
	for (size_t i = 0; i < n; i++)
		means(f, report, m, threads[i]);
	fprintf(f, "</tbody></table></div>\n");
}

void suite_html(FILE *f, const struct report *report)
{
	if (!suite_first(report))
		return;
	fprintf(f,
		"<section id=\"malloc\"><h2>malloc: programs on different allocators</h2>\n"
		"<p>Each line is a program of plain C, run with each allocator loaded before it. "
		"The first has its figure, the others their ratio to it: the median over the "
		"repetitions, which were interleaved; below 1 is better. Each line does the same "
		"work, whichever the allocator.</p>\n");
	for (int m = 0; m < SUITE_MEASURES; m++)
		matrix(f, report, m);
	fprintf(f, "</section>\n");
}
