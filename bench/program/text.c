/* SPDX-License-Identifier: MIT */
/* What the terminal shows, at most 100 columns wide: tables, suites, and the progress. */
#include "program/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LABEL_WIDTH 28
#define TEXT_WIDTH 96

static bool bold(void)
{
	static int answer = -1;
	const char *term = getenv("TERM");

	if (answer < 0)
		answer = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 &&
			 !getenv("NO_COLOR");
	return answer;
}

static void text_bold(const char *text) { printf(bold() ? "\033[1m%s\033[0m\n" : "%s\n", text); }

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
		printf("%*s", columns[i]->width, column_cell(columns[i], t, r).text);
	putchar('\n');
}

static bool has_yardstick(const struct table_result *t)
{
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].row->role == BENCH_YARDSTICK)
			return true;
	return false;
}

/* What a program gets, against the best other row. */
static void print_gain(const struct table_result *t)
{
	const struct row_result *own = default_row(t);
	char line[400] = "";
	struct text text = {line, sizeof(line)};
	struct spread gain;
	bool decided;

	if (t->bench->apart)
		say(&text, "Each row is another call; they are not compared.");
	else if (!own)
		say(&text, "Nothing of nearcpu could be measured here.");
	else
		say(&text, "\"%s\": %s %s", own->row->label,
		    say_cost(t->bench->kind, row_cost(t, own).median).text, t->bench->op);
	if (own && row_gain(t, own, &gain, &decided))
		say(&text, ", %s times as %s as the best other, \"%s\"%s",
		    say_ratio(gain.median).text,
		    t->bench->kind == BENCH_MEMORY ? "compact" : "fast",
		    best_other(t, own)->row->label, decided ? "" : ": within the spread");
	print_wrapped(line, TEXT_WIDTH, "", "");
}

void text_table(const struct table_result *t)
{
	const struct column *columns[MAX_COLUMNS];
	size_t n = table_columns(t, columns);
	char line[400];

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
	print_gain(t);
	for (size_t i = 0; i < t->bench->figure_count; i++)
		if (figure_line(t, &t->bench->figures[i], line, sizeof(line)))
			printf("%s\n", line);
	putchar('\n');
}

void text_legend(void)
{
	printf("ratio: how many times as fast, or compact, as the best other row, if the table\n"
	       "       names no other; above 1 is a gain, below 1 a loss\n"
	       "spread: distance of the quartiles in percent of the median\n"
	       "reached, missed: whether this run kept a bound that the project set itself\n\n");
}

void text_end(const struct report *report)
{
	char line[400];

	if (report->cut)
		printf("Time was up: the numbers of threads that matter less were left out.\n");
	if (load_warning(&report->load, line, sizeof(line)))
		print_wrapped(line, TEXT_WIDTH, "", "");
}

/* ---- suites ---- */

#define BASE_WIDTH 9
#define CELL_WIDTH 13
#define BOUND_WIDTH 15
#define MOST_RATIO 9999 /* that is printed: a thread may have got nothing at all */

static struct word say_value(double v, const struct suite_measure *m)
{
	return word("%.*f", v < 999.5 ? m->decimals : 0, v);
}

/* A ratio, three digits of it, and after it the spread or as many blanks. */
static void print_cell(double ratio, const char *spread)
{
	struct word cell = word("over %d", MOST_RATIO);

	if (ratio < MOST_RATIO)
		cell = word("%.*f%7s", ratio < 9.995 ? 2 : ratio < 99.95 ? 1 : 0, ratio, spread);
	printf("%*s", CELL_WIDTH, cell.text);
}

static int name_width(const struct table_result *t) { return suite_kind_of(t)->width; }

static void print_suite_head(const struct table_result *t, const struct suite_measure *m)
{
	printf("%s; of %s in %s, of the others as ratio to it (spread)\n\n", m->title,
	       t->rows[0].row->name, m->unit);
	printf("%*s %*s", name_width(t) - 1, "threads", BASE_WIDTH, t->rows[0].row->name);
	for (size_t i = 1; i < t->bench->row_count; i++)
		printf("%*s", CELL_WIDTH, t->rows[i].row->name);
	if (suite_has_bounds(t, m))
		printf("%*s", BOUND_WIDTH, "at most");
	putchar('\n');
}

static void print_ratio(const struct table_result *t, size_t row, const struct suite_measure *m)
{
	struct spread s;

	if (suite_ratio(t, row, m, &s))
		print_cell(s.median, word(" %s", say_spread(s, 0).text).text);
	else
		printf("%*s", CELL_WIDTH, t->rows[row].failed ? "failed" : "-");
}

static void print_bound(const struct table_result *t)
{
	double goal;
	const char *verdict = suite_bound(t, &goal);
	char cell[32] = "";

	if (verdict)
		snprintf(cell, sizeof(cell), "%.2f %s", goal, verdict);
	printf("%*s", BOUND_WIDTH, cell);
}

static void print_suite_line(const struct table_result *t, const struct suite_measure *m)
{
	const char *base = t->rows[0].failed ? "failed" : "-";

	printf("%-*s%*s", name_width(t), suite_line_name(t).text, BASE_WIDTH,
	       t->rows[0].count ? say_value(row_measure_of(t, &t->rows[0], m->of).median, m).text
				: base);
	for (size_t i = 1; i < t->bench->row_count; i++)
		print_ratio(t, i, m);
	if (suite_has_bounds(t, m))
		print_bound(t);
	putchar('\n');
}

static void print_means(const struct suite *s, const struct suite_measure *m, unsigned threads)
{
	const struct table_result *t = suite_first(s);
	char name[48] = "geometric mean";

	if (threads)
		snprintf(name, sizeof(name), "  of those%*u", name_width(t) - 11, threads);
	printf("%-*s%*s", name_width(t), name, BASE_WIDTH, "");
	for (size_t i = 1; i < t->bench->row_count; i++) {
		struct suite_mean mean = suite_mean(s, i, m, threads);

		if (mean.lines)
			print_cell(mean.mean, "");
		else
			printf("%*s", CELL_WIDTH, "-");
	}
	putchar('\n');
}

static void print_below(const struct suite *s, const struct suite_measure *m)
{
	unsigned threads[MAX_THREAD_COUNTS];
	size_t n = suite_threads(s, m, threads);

	print_means(s, m, 0);
	for (size_t i = 0; i < n; i++)
		print_means(s, m, threads[i]);
	putchar('\n');
}

static bool same_before(const struct suite *s, size_t table, size_t row)
{
	for (size_t i = 0; i < table; i++)
		if (suite_line(s, i) && strcmp(suite_line(s, i)->rows[row].note,
					       suite_line(s, table)->rows[row].note) == 0)
			return true;
	return false;
}

/* What is missing is missing in each line and printed once; each failure is printed. */
static void print_notes(const struct suite *s)
{
	for (size_t i = 0; i < s->report->count; i++) {
		const struct table_result *t = suite_line(s, i);

		for (size_t j = 0; t && j < t->bench->row_count; j++) {
			const struct row_result *r = &t->rows[j];

			if (r->failed)
				printf("%s, %u, %s failed: %s\n", t->bench->part, t->threads,
				       r->row->name, r->note);
			else if (r->note[0] && !same_before(s, i, j))
				printf("%s not measured: %s\n", r->row->name, r->note);
		}
	}
}

void suite_text_line(const struct table_result *t)
{
	static const struct suite_kind *begun;
	const struct suite_kind *kind = suite_kind_of(t);

	if (!begun || begun != kind) {
		text_bold(kind->title);
		print_suite_head(t, &kind->measures[0]);
	}
	begun = kind;
	print_suite_line(t, &kind->measures[0]);
}

/* What programs wrote; the lines are not wrapped. */
static void print_said(const struct suite *s)
{
	for (size_t i = 0; i < s->report->count; i++) {
		const struct table_result *t = suite_line(s, i);

		for (size_t j = 0; t && j < t->bench->row_count; j++) {
			char said[sizeof(t->rows[j].said)], *rest = said, *line;

			strcpy(said, t->rows[j].said);
			while ((line = strsep(&rest, "\n")))
				if (*line)
					printf("%s, %u, %s: %s\n", t->bench->part, t->threads,
					       t->rows[j].row->name, line);
		}
	}
}

static void print_all(const struct suite *s, const struct suite_measure *m)
{
	print_suite_head(suite_first(s), m);
	for (size_t i = 0; i < s->report->count; i++)
		if (suite_line(s, i) && suite_shows(suite_line(s, i), m))
			print_suite_line(suite_line(s, i), m);
}

static void end_one(const struct suite *s)
{
	for (size_t i = 0; i < s->kind->measure_count; i++) {
		const struct suite_measure *m = &s->kind->measures[i];

		if (!suite_shown(s, m))
			continue;
		if (i)
			print_all(s, m);
		print_below(s, m);
	}
	print_notes(s);
	print_said(s);
}

void suite_text_end(const struct report *report)
{
	for (const struct suite_kind *kind = suite_kinds; kind->name; kind++) {
		struct suite s = {kind, report};

		if (suite_first(&s))
			end_one(&s);
	}
}

/* ---- progress: one line on standard error, while that is a terminal ---- */

static unsigned total, step;
static bool on_terminal;

void progress_begin(unsigned steps)
{
	total = steps;
	step = 0;
	on_terminal = isatty(STDERR_FILENO);
}

void progress_step(const struct table_result *t, const struct bench_row *row, unsigned repetition)
{
	char name[80];

	step++;
	if (!on_terminal)
		return;
	table_name(t, name, sizeof(name));
	/* Seventy-nine columns at most: a line that wraps cannot be cleared. */
	fprintf(stderr, "\r\033[K%3u %%  %.36s: %.24s %u/%u",
		(step - 1) * 100 / (total ? total : 1), name, row->label, repetition, t->wanted);
	fflush(stderr);
}

void progress_clear(void)
{
	if (on_terminal)
		fprintf(stderr, "\r\033[K");
}
