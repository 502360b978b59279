/* SPDX-License-Identifier: MIT */
/* A table for the terminal, at most 100 columns wide. */
#include "bench/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LABEL_WIDTH 28

static bool bold(void)
{
	static int answer = -1;
	const char *term = getenv("TERM");

	if (answer < 0)
		answer = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 &&
			 !getenv("NO_COLOR");
	return answer;
}

void text_bold(const char *text)
{
	printf(bold() ? "\033[1m%s\033[0m\n" : "%s\n", text);
}

static void print_head(const struct column *const *columns, size_t n)
{
	printf("%-*s", LABEL_WIDTH, "");
	for (size_t i = 0; i < n; i++)
		printf("%*s", columns[i]->width, columns[i]->head);
	putchar('\n');
}

static void print_row(const struct table_result *t, const struct row_result *r,
		      const struct column *const *columns, size_t n)
{
	const char *mark = r->row->role == BENCH_YARDSTICK ? " *" : "";
	char label[LABEL_WIDTH + 1];

	snprintf(label, sizeof(label), "%s%s%s", r->row->label, mark,
		 row_is_scaled(t, r) ? " ~" : "");
	printf("%-*s", LABEL_WIDTH, label);
	if (!r->count)
		printf("  %s: %s", r->failed ? "failed" : "not measured", r->note);
	for (size_t i = 0; i < n && r->count; i++)
		printf("%*s", columns[i]->width, columns[i]->cell(t, r).text);
	putchar('\n');
}

static void print_text(const char *text)
{
	print_wrapped(text, TEXT_WIDTH, "", "");
}

static bool has_yardstick(const struct table_result *t)
{
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].row->role == BENCH_YARDSTICK)
			return true;
	return false;
}

void text_table(const struct table_result *t)
{
	const struct column *columns[MAX_COLUMNS];
	size_t n = table_columns(t, columns);
	char line[1200];

	table_title(t, line, sizeof(line));
	text_bold(line);
	table_conditions(t, line, sizeof(line));
	printf("%s\n\n", line);
	print_head(columns, n);
	for (size_t i = 0; i < t->bench->row_count; i++)
		print_row(t, &t->rows[i], columns, n);
	putchar('\n');
	if (has_yardstick(t))
		printf("* a yardstick: does less than the others; not one of the others\n");
	table_verdict(t, line, sizeof(line));
	print_text(line);
	for (size_t i = 0; i < t->bench->figure_count; i++)
		if (figure_line(t, &t->bench->figures[i], line, sizeof(line)))
			printf("%s\n", line);
	putchar('\n');
}

void text_legend(void)
{
	printf("ratio: operations for the cost of one of the best other row, if the table names "
	       "no other;\n"
	       "       above 1 is a gain, below 1 a loss, 1/8 is one for the cost of eight\n"
	       "spread: distance of the quartiles in percent of the median\n"
	       "reached, missed: whether this run kept a bound that the project set itself\n\n");
}

void text_end(const struct report *report)
{
	char line[400];

	if (load_warning(&report->load, line, sizeof(line)))
		print_text(line);
}
