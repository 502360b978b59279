/* SPDX-License-Identifier: MIT */
/* suite_text: the suite for the terminal, at most 100 columns wide. */
#include "suite.h"

#include <string.h>

#define NAME_WIDTH 18
#define BASE_WIDTH 9
#define CELL_WIDTH 13

static struct word say_value(double v, enum suite_measure m)
{
	struct word w;

	snprintf(w.text, sizeof(w.text), "%.*f", m == SUITE_MEMORY && v < 999.5 ? 1 : 0, v);
	return w;
}

static void print_head(const struct table_result *t, enum suite_measure m)
{
	char unit[48];

	printf("%s; of %s in %s, of the others as ratio to it (spread)\n\n", suite_title(m),
	       t->rows[0].row->name, suite_unit(m));
	snprintf(unit, sizeof(unit), "%s", t->rows[0].row->name);
	printf("%-*s%*s", NAME_WIDTH, "          threads", BASE_WIDTH, unit);
	for (size_t i = 1; i < t->bench->row_count; i++)
		printf("%*s", CELL_WIDTH, t->rows[i].row->name);
	putchar('\n');
}

/* The spread is the distance of the quartiles, as everywhere. */
static void print_ratio(const struct table_result *t, size_t row, enum suite_measure m)
{
	char cell[32];
	struct spread s;

	if (suite_ratio(t, row, m, &s))
		snprintf(cell, sizeof(cell), "%.*f %4.0f %%", s.median < 99.5 ? 2 : 0, s.median,
			 (s.high - s.low) / s.median * 100);
	else
		snprintf(cell, sizeof(cell), "%s", t->rows[row].failed ? "failed" : "-");
	printf("%*s", CELL_WIDTH, cell);
}

static void print_line(const struct table_result *t, enum suite_measure m)
{
	const char *base = t->rows[0].failed ? "failed" : "-";

	printf("%-*s%*s", NAME_WIDTH, suite_line_name(t).text, BASE_WIDTH,
	       t->rows[0].count ? say_value(suite_value(t, 0, m).median, m).text : base);
	for (size_t i = 1; i < t->bench->row_count; i++)
		print_ratio(t, i, m);
	putchar('\n');
}

static void print_means(const struct report *report, enum suite_measure m, unsigned threads)
{
	const struct table_result *t = suite_first(report);
	char name[48] = "geometric mean";

	if (threads)
		snprintf(name, sizeof(name), "  of those%8u", threads);
	printf("%-*s%*s", NAME_WIDTH, name, BASE_WIDTH, "");
	for (size_t i = 1; i < t->bench->row_count; i++) {
		struct suite_mean mean = suite_mean(report, i, m, threads);
		char cell[32] = "-";

		if (mean.lines)
			snprintf(cell, sizeof(cell), "%.2f       ", mean.mean);
		printf("%*s", CELL_WIDTH, cell);
	}
	putchar('\n');
}

static void print_below(const struct report *report, enum suite_measure m)
{
	unsigned threads[MAX_THREAD_COUNTS];
	size_t n = suite_threads(report, threads);
	char line[800];

	print_means(report, m, 0);
	for (size_t i = 0; i < n; i++)
		print_means(report, m, threads[i]);
	putchar('\n');
	if (suite_verdict(report, m, line, sizeof(line)))
		text_wrapped(line);
	putchar('\n');
}

static bool same_before(const struct report *report, size_t table, size_t row)
{
	for (size_t i = 0; i < table; i++)
		if (suite_has(&report->tables[i]) &&
		    strcmp(report->tables[i].rows[row].note,
			   report->tables[table].rows[row].note) == 0)
			return true;
	return false;
}

/* What is missing is so in each line, and said once; a failure is said of each. */
static void print_notes(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct table_result *t = &report->tables[i];

		for (size_t j = 0; suite_has(t) && j < t->bench->row_count; j++) {
			const struct row_result *r = &t->rows[j];

			if (r->failed)
				printf("%s, %u, %s failed: %s\n", t->bench->part, t->threads,
				       r->row->name, r->note);
			else if (r->note[0] && !same_before(report, i, j))
				printf("%s not measured: %s\n", r->row->name, r->note);
		}
	}
}

void suite_text_line(const struct table_result *t)
{
	static bool begun;

	if (!begun) {
		text_bold("malloc: programs on different allocators");
		print_head(t, SUITE_CPU);
	}
	begun = true;
	print_line(t, SUITE_CPU);
}

void suite_text_end(const struct report *report)
{
	const struct table_result *first = suite_first(report);

	if (!first)
		return;
	for (int m = 0; m < SUITE_MEASURES; m++) {
		if (m != SUITE_CPU) {
			print_head(first, m);
			for (size_t i = 0; i < report->count; i++)
				if (suite_has(&report->tables[i]))
					print_line(&report->tables[i], m);
		}
		print_below(report, m);
	}
	print_notes(report);
}
