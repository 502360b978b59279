/* SPDX-License-Identifier: MIT */
/* The tables of --report in Markdown: one line for each number of threads, ours in figures and the
 * others in multiples of ours. */
#include "bench/scale.h"

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

static int compare_to_measure(const void *a, const void *b)
{
	const struct table_result *x = a, *y = b;
	unsigned p = rank(x, sort_cpus), q = rank(y, sort_cpus);

	if (p != q)
		return (p > q) - (p < q);
	return (place(x->bench) > place(y->bench)) - (place(x->bench) < place(y->bench));
}

static int compare_to_show(const void *a, const void *b)
{
	const struct table_result *x = a, *y = b;
	size_t p = place(x->bench), q = place(y->bench);

	if (p != q)
		return (p > q) - (p < q);
	return (x->threads > y->threads) - (x->threads < y->threads);
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

/* How many times the wall time of b the same work takes a; repetition by repetition. */
static double wall_ratio(const struct row_result *a, const struct row_result *b)
{
	double values[MAX_REPEAT];
	unsigned count = a->count < b->count ? a->count : b->count;

	for (unsigned i = 0; i < count; i++) {
		const struct bench_sample *x = &a->samples[i], *y = &b->samples[i];

		values[i] = ((double)x->wall_ns / (double)x->ops) /
			    ((double)y->wall_ns / (double)y->ops);
	}
	return spread_of(values, count).median;
}

static bool is_measured(const struct table_result *t)
{
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].count)
			return true;
	return false;
}

static void put_missing(struct grid *g, size_t line, const struct row_result *r)
{
	put(g, line, "%s", r->failed ? "failed" : "-");
}

static void put_base(struct grid *g, size_t line, const struct table_result *t,
		     const struct row_result *base)
{
	struct spread s = row_cost(t, base);

	put(g, line, "%u", t->threads);
	put(g, line, "%.2f", s.median);
	put(g, line, "%.0f %%", (s.high - s.low) / s.median * 100);
	put(g, line, "%s", say_rate(1e9 / row_part_ns(base, PART_WALL)).text);
}

static void put_ratios(struct grid *g, size_t line, const struct table_result *t,
		       const struct row_result *base)
{
	put_base(g, line, t, base);
	for (size_t i = 0; i < t->bench->row_count; i++) {
		const struct row_result *r = &t->rows[i];

		if (r->row == base->row)
			continue;
		if (r->count)
			put(g, line, "%s", say_ratio(wall_ratio(r, base)).text);
		else
			put_missing(g, line, r);
	}
}

static void put_ratio_heads(struct grid *g, const struct table_result *t,
			    const struct row_result *base)
{
	put(g, 0, "threads");
	put(g, 0, "ns/op");
	put(g, 0, "spread");
	put(g, 0, "op/s");
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].row != base->row)
			put(g, 0, "%s", t->rows[i].row->name);
}

/* All calls by wall time. */
static void put_calls(struct grid *g, size_t line, const struct table_result *t)
{
	put(g, line, "%u", t->threads);
	for (size_t i = 0; i < t->bench->row_count; i++) {
		const struct row_result *r = &t->rows[i];

		if (r->count)
			put(g, line, "%s", say_cost(BENCH_TIME, row_part_ns(r, PART_WALL)).text);
		else
			put_missing(g, line, r);
	}
}

static void put_call_heads(struct grid *g, const struct table_result *t)
{
	put(g, 0, "threads");
	for (size_t i = 0; i < t->bench->row_count; i++)
		put(g, 0, "%s", t->rows[i].row->name);
}

/* Tables of one line: what an object takes, or what each call costs one thread. */
static void print_list(const struct table_result *t)
{
	bool bytes = t->bench->kind == BENCH_MEMORY;
	char text[600] = "";
	double widest = 0;

	for (size_t i = 0; i < t->bench->row_count; i++) {
		struct spread s = row_cost(t, &t->rows[i]);
		size_t used = strlen(text);

		if (!t->rows[i].count)
			continue;
		snprintf(text + used, sizeof(text) - used, "%s %s %s", used ? "," : "",
			 t->rows[i].row->name, say_cost(t->bench->kind, s.median).text);
		if ((s.high - s.low) / s.median > widest)
			widest = (s.high - s.low) / s.median;
	}
	if (bytes)
		scale_item("**%s**: of each of %s counters, %u threads:%s", t->bench->name,
			   say_count(t->iterations).text, t->threads, text);
	else
		scale_item("**%s**: CPU time, %u thread:%s; widest spread %.0f %%", t->bench->name,
			   t->threads, text, widest * 100);
	putchar('\n');
}

static void print_bench(const struct report *report, size_t first, size_t count)
{
	const struct table_result *t = &report->tables[first];
	const struct row_result *base = first_base(t, count);
	struct grid *g = calloc(1, sizeof(*g));

	if (!g)
		return;
	if (t->bench->apart) {
		printf("**%s**: %s, wall time\n\n", t->bench->name, t->bench->op);
		put_call_heads(g, t);
	} else if (base) {
		printf("**%s**: %s: %s, and the others' wall time in multiples of its\n\n",
		       t->bench->name, t->bench->op, base->row->name);
		put_ratio_heads(g, t, base);
	}
	for (size_t i = 0; i < count && g->lines && g->lines < MAX_LINES; i++) {
		const struct row_result *own;

		t = &report->tables[first + i];
		if (!is_measured(t))
			continue;
		own = base ? find_row(t, base->row->name) : NULL;
		if (t->bench->apart)
			put_calls(g, g->lines, t);
		else if (own)
			put_ratios(g, g->lines, t, own);
	}
	if (g->lines)
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

/* Why rows are missing, each reason once. */
static void print_notes(const struct report *report)
{
	struct noted noted[MAX_NOTED];
	size_t count = collect_noted(report, noted);

	for (size_t i = 0; i < count; i++) {
		const char *note = noted[i].r ? noted[i].r->note : NULL;
		char rows[600] = "";

		for (size_t j = i; note && j < count; j++) {
			size_t used = strlen(rows);

			if (!noted[j].r || strcmp(note, noted[j].r->note) != 0)
				continue;
			snprintf(rows + used, sizeof(rows) - used, "%s%s %s (%u)", used ? ", " : "",
				 noted[j].t->bench->name, noted[j].r->row->name,
				 noted[j].t->threads);
			if (j > i)
				noted[j].r = NULL;
		}
		if (note)
			scale_item("%s: %s: rows (threads) %s",
				   noted[i].r->failed ? "failed" : "not measured", note, rows);
	}
}

void scale_print(const struct report *report, const char *why)
{
	size_t count;

	scale_print_head(report, why);
	for (size_t i = 0; i < report->count; i += count) {
		const struct table_result *t = &report->tables[i];
		size_t shown = 0;

		for (count = 0; i + count < report->count && t[count].bench == t->bench; count++)
			shown += is_measured(&t[count]);
		if (shown && (t->bench->kind == BENCH_MEMORY ||
			      (t->bench->apart && t->bench->fixed_threads)))
			print_list(t);
		else if (shown)
			print_bench(report, i, count);
	}
	print_notes(report);
}
