/* SPDX-License-Identifier: MIT */
/* The tables of --report in Markdown: one line for each number of threads, ours in figures and the
 * others in multiples of ours. */
#include "bench/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CELLS 16
#define MAX_LINES (MAX_THREAD_COUNTS + 1)

static char hitcounter[] = "hitcounter", list[] = "list", refcount[] = "refcount",
	    counter[] = "counter", calls[] = "calls", across[] = "across", memory[] = "memory";
static char *const core[] = {hitcounter, list, refcount, counter, calls, across, memory};

void scale_choose(struct bench_options *o)
{
	if (o->name_count)
		return;
	o->names = core;
	o->name_count = BENCH_COUNT(core);
}

size_t scale_threads(unsigned out[MAX_THREAD_COUNTS], unsigned cpus)
{
	size_t count = 0;

	for (unsigned n = 1; n < cpus && count < MAX_THREAD_COUNTS - 1; n *= 2)
		out[count++] = n;
	out[count++] = cpus;
	return count;
}

static size_t place(const struct bench *b)
{
	size_t i = 0;

	while (bench_registry[i] && bench_registry[i] != b)
		i++;
	return i;
}

/* One thread first, and what has its own number of threads; then all CPUs, half of them, and so
 * on. */
static unsigned rank(const struct table_result *t, unsigned cpus)
{
	unsigned rank = 1;

	if (t->threads == 1 || t->bench->threads)
		return 0;
	for (unsigned n = t->threads; n < cpus && rank < 64; n *= 2)
		rank++;
	return rank;
}

static unsigned sort_cpus;

static int compare(size_t a, size_t b)
{
	return (a > b) - (a < b);
}

static int compare_to_measure(const void *a, const void *b)
{
	const struct table_result *x = a, *y = b;
	int ranks = compare(rank(x, sort_cpus), rank(y, sort_cpus));

	return ranks ? ranks : compare(place(x->bench), place(y->bench));
}

static int compare_to_show(const void *a, const void *b)
{
	const struct table_result *x = a, *y = b;
	int places = compare(place(x->bench), place(y->bench));

	return places ? places : compare(x->threads, y->threads);
}

void scale_sort_to_measure(struct report *report, unsigned cpus)
{
	sort_cpus = cpus;
	qsort(report->tables, report->count, sizeof(*report->tables), compare_to_measure);
}

void scale_sort_to_show(struct report *report)
{
	qsort(report->tables, report->count, sizeof(*report->tables), compare_to_show);
}

/* A table of text, its columns as wide as they must be. */
struct grid {
	struct word cells[MAX_LINES][MAX_CELLS];
	size_t lines, columns;
};

__attribute__((format(printf, 3, 4))) static void put(struct grid *g, size_t line, const char *fmt,
						      ...)
{
	size_t column = 0;
	va_list args;

	while (column < MAX_CELLS - 1 && g->cells[line][column].text[0])
		column++;
	va_start(args, fmt);
	vsnprintf(g->cells[line][column].text, sizeof(struct word), fmt, args); /* NOLINT */
	va_end(args);
	if (column >= g->columns)
		g->columns = column + 1;
	if (line >= g->lines)
		g->lines = line + 1;
}

static int width_of(const struct grid *g, size_t column)
{
	size_t width = 2;

	for (size_t i = 0; i < g->lines; i++)
		if (strlen(g->cells[i][column].text) > width)
			width = strlen(g->cells[i][column].text);
	return (int)width;
}

static void print_grid(const struct grid *g)
{
	static const char dashes[] = "----------------------------------------------------";

	for (size_t i = 0; i < g->lines; i++) {
		for (size_t c = 0; c < g->columns; c++)
			printf("| %*s", width_of(g, c), g->cells[i][c].text);
		printf("|\n");
		for (size_t c = 0; i == 0 && c < g->columns; c++)
			printf("|%.*s:", width_of(g, c), dashes);
		if (i == 0)
			printf("|\n");
	}
	putchar('\n');
}

/* The row that the others are compared with: the last of ours that was measured. */
static const struct row_result *base_of(const struct table_result *t)
{
	for (size_t i = t->bench->row_count; i-- > 0;)
		if (t->rows[i].count && t->rows[i].row->role == BENCH_OURS)
			return &t->rows[i];
	return NULL;
}

/* The rows of a benchmark are the same in all its tables, so one base serves them all. */
static const struct row_result *first_base(const struct table_result *t, size_t count)
{
	const struct row_result *base = NULL;

	for (size_t i = 0; i < count && !base; i++)
		base = base_of(&t[i]);
	return base;
}

static bool is_measured(const struct table_result *t)
{
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].count)
			return true;
	return false;
}

/* With a base: its figures, and the others' wall time in multiples of its. Without: what each call
 * takes. */
static void put_heads(struct grid *g, const struct table_result *t, const struct row_result *base)
{
	static const char *const own[] = {"ns/op", "spread", "op/s"};

	put(g, 0, "threads");
	for (size_t i = 0; base && i < BENCH_COUNT(own); i++)
		put(g, 0, "%s", own[i]);
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (!base || t->rows[i].row != base->row)
			put(g, 0, "%s", t->rows[i].row->name);
}

static void put_base(struct grid *g, size_t line, const struct table_result *t,
		     const struct row_result *base)
{
	struct spread s = row_cost(t, base);

	put(g, line, "%.2f", s.median);
	put(g, line, "%s", say_spread(s, 0).text);
	put(g, line, "%s", say_rate(1e9 / row_measure_of(t, base, BENCH_WALL).median).text);
}

static void put_line(struct grid *g, size_t line, const struct table_result *t,
		     const struct row_result *base)
{
	put(g, line, "%u", t->threads);
	if (base)
		put_base(g, line, t, base);
	for (size_t i = 0; i < t->bench->row_count; i++) {
		const struct row_result *r = &t->rows[i];

		if (base && r->row == base->row)
			continue;
		if (!r->count)
			put(g, line, "%s", r->failed ? "failed" : "-");
		else if (base)
			put(g, line, "%s",
			    say_ratio(measure_ratio(t, r, base, BENCH_WALL).median).text);
		else
			put(g, line, "%s",
			    say_cost(BENCH_TIME, row_measure_of(t, r, BENCH_WALL).median).text);
	}
}

/* Tables of one line: what an object takes, or what each call costs one thread. */
static void print_list(const struct table_result *t)
{
	bool bytes = t->bench->kind == BENCH_MEMORY;
	char out[600] = "";
	struct text text = {out, sizeof(out)};
	double widest = 0;

	for (size_t i = 0; i < t->bench->row_count; i++) {
		struct spread s = row_cost(t, &t->rows[i]);

		if (!t->rows[i].count)
			continue;
		say(&text, "%s %s %s", *out ? "," : "", t->rows[i].row->name,
		    say_cost(t->bench->kind, s.median).text);
		if ((s.high - s.low) / s.median > widest)
			widest = (s.high - s.low) / s.median;
	}
	if (bytes)
		scale_item("**%s**: of %s, one of %s, %u threads:%s", t->bench->name, t->bench->op,
			   say_count(t->iterations).text, t->threads, out);
	else
		scale_item("**%s**: CPU time, %u thread:%s; widest spread %.0f %%", t->bench->name,
			   t->threads, out, widest * 100);
}

static void print_bench(const struct report *report, size_t first, size_t count)
{
	const struct table_result *t = &report->tables[first];
	const struct row_result *base = t->bench->apart ? NULL : first_base(t, count);
	struct grid *g = base || t->bench->apart ? calloc(1, sizeof(*g)) : NULL;

	if (!g)
		return;
	if (base)
		printf("**%s**: %s: %s, and the others' wall time in multiples of its\n\n",
		       t->bench->name, t->bench->op, base->row->name);
	else
		printf("**%s**: %s, wall time\n\n", t->bench->name, t->bench->op);
	put_heads(g, t, base);
	for (; count && g->lines < MAX_LINES; t++, count--) {
		const struct row_result *own = base ? find_row(t, base->row->name) : NULL;

		if (is_measured(t) && (own || !base))
			put_line(g, g->lines, t, own);
	}
	print_grid(g);
	free(g);
}

/* A row that was not measured. */
struct noted {
	const struct table_result *t;
	const struct row_result *r;
};
#define MAX_NOTED 256

/* A row that is missing in all tables of a benchmark is noted for the last of them. */
static size_t collect_noted(const struct report *report, struct noted out[MAX_NOTED])
{
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct table_result *t = &report->tables[i];
		bool last = i + 1 == report->count || t[1].bench != t->bench;

		for (size_t j = 0; j < t->bench->row_count && count < MAX_NOTED; j++)
			if (t->rows[j].note[0] && (t->rows[j].failed || last))
				out[count++] = (struct noted){t, &t->rows[j]};
	}
	return count;
}

static bool is_noted_before(const struct noted *noted, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(noted[j].r->note, noted[i].r->note) == 0)
			return true;
	return false;
}

/* Why rows are missing, each reason once. */
static void print_notes(const struct report *report)
{
	struct noted noted[MAX_NOTED];
	size_t count = collect_noted(report, noted);

	for (size_t i = 0; i < count; i++) {
		const char *note = noted[i].r->note;
		char rows[600] = "";
		struct text text = {rows, sizeof(rows)};

		if (is_noted_before(noted, i))
			continue;
		for (size_t j = i; j < count; j++)
			if (strcmp(note, noted[j].r->note) == 0)
				say(&text, "%s%s %s (%u)", *rows ? ", " : "",
				    noted[j].t->bench->name, noted[j].r->row->name,
				    noted[j].t->threads);
		scale_item("%s: %s: rows (threads) %s",
			   noted[i].r->failed ? "failed" : "not measured", note, rows);
	}
}

static bool is_list(const struct bench *b)
{
	return b->kind == BENCH_MEMORY || (b->apart && b->fixed_threads);
}

/* Prints all tables, or all lists, in the order of the report. */
static void print_benches(const struct report *report, bool lists)
{
	size_t count;

	for (size_t i = 0; i < report->count; i += count) {
		const struct table_result *t = &report->tables[i];
		size_t shown = 0;

		for (count = 0; i + count < report->count && t[count].bench == t->bench; count++)
			shown += is_measured(&t[count]);
		if (!shown || is_list(t->bench) != lists)
			continue;
		if (lists)
			print_list(t);
		else
			print_bench(report, i, count);
	}
}

void scale_print(const struct report *report, const char *why)
{
	scale_print_head(report, why);
	print_benches(report, false);
	print_benches(report, true);
	print_notes(report);
}
