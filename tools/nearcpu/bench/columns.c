/* SPDX-License-Identifier: MIT */
/* The columns of the tables, the same for the terminal and the page. */
#include "bench/report.h"

/* What a column shows; `part` of the sample where one is named. */
enum shows {
	SHOWS_MS,   /* of `part`, in all operations */
	SHOWS_RATE, /* operations in a second of `part` */
	SHOWS_TIME, /* of `part`, for an operation */
	SHOWS_COST,
	SHOWS_ABOVE_BASE,
	SHOWS_MEGABYTES,
	SHOWS_RATIO,      /* the cost of the best competitor over that of the row */
	SHOWS_THROUGHPUT, /* in proportion to that of the row that the table names */
	SHOWS_SPREAD,
	SHOWS_FAIRNESS,
	SHOWS_P999,
};

enum { TIME = 1, MEMORY = 2, OBJECTS = 4, WAIT = 8, BASE = 16, ANY = 31 };

/* In their order, and for which tables. */
static const struct column all[] = {
	{MEMORY, "MB in all", 12, SHOWS_MEGABYTES, 0},
	{OBJECTS, "bytes each", 12, SHOWS_COST, 0},
	{WAIT, "wall/op", 10, SHOWS_TIME, PART_WALL},
	{TIME, "wall ms", 8, SHOWS_MS, PART_WALL},
	{TIME | WAIT, "wall op/s", 10, SHOWS_RATE, PART_WALL},
	{WAIT, "CPU/op", 10, SHOWS_TIME, PART_CPU},
	{TIME, "user ms", 8, SHOWS_MS, PART_USER},
	{TIME, "sys ms", 7, SHOWS_MS, PART_SYSTEM},
	{TIME, "CPU op/s", 9, SHOWS_RATE, PART_CPU},
	{TIME, "ns/op", 8, SHOWS_COST, 0},
	{BASE, "above", 7, SHOWS_ABOVE_BASE, 0},
	{TIME | MEMORY, "ratio", 7, SHOWS_RATIO, 0},
	{WAIT, "ratio", 8, SHOWS_THROUGHPUT, 0},
	{ANY, "spread", 8, SHOWS_SPREAD, 0},
	{WAIT, "fairness", 10, SHOWS_FAIRNESS, 0},
	{WAIT, "p99.9 wait", 12, SHOWS_P999, 0},
};

/* Of columns that compare the row with another. */
static struct word compared(enum shows shows, const struct table_result *t,
			    const struct row_result *r)
{
	const struct row_result *other = shows == SHOWS_RATIO ? best_other(t, r)
					 : shows == SHOWS_THROUGHPUT
						 ? find_row(t, t->bench->against)
						 : find_row(t, t->bench->base);

	if (!other || (shows == SHOWS_ABOVE_BASE && other == r))
		return word("-");
	if (shows == SHOWS_RATIO)
		return say_ratio(cost_ratio(t, other, r).median);
	if (shows == SHOWS_THROUGHPUT)
		return word("%.2f", cost_ratio(t, other, r).median);
	return word("%.2f", row_cost(t, r).median - row_cost(t, other).median);
}

struct word column_cell(const struct column *c, const struct table_result *t,
			const struct row_result *r)
{
	struct spread s = row_cost(t, r);
	double ns = row_part_ns(r, c->part), percent = (s.high - s.low) / s.median * 100;
	double objects = t->bench->pattern ? 1 : (double)t->iterations;

	switch (c->shows) {
	case SHOWS_MS:
		return say_ms(ns * table_ops(t, r));
	case SHOWS_RATE:
		return say_rate(1e9 / ns);
	case SHOWS_TIME:
		return say_cost(BENCH_TIME, ns);
	case SHOWS_COST:
		return word("%.*f", s.median < 99.95 ? 2 : 0, s.median);
	case SHOWS_MEGABYTES:
		return word("%.1f", s.median * objects / 1e6);
	case SHOWS_SPREAD:
		return word("%.*f %%", percent < 9.95 ? 1 : 0, percent);
	case SHOWS_FAIRNESS:
		if (t->threads == 1)
			return word("-");
		return word("%.2f", 1 / row_measure_of(t, r, BENCH_UNFAIRNESS).median);
	case SHOWS_P999:
		return say_cost(BENCH_TIME, row_measure_of(t, r, BENCH_P999).median);
	default:
		return compared(c->shows, t, r);
	}
}

size_t table_columns(const struct table_result *t, const struct column *out[MAX_COLUMNS])
{
	const struct bench *b = t->bench;
	unsigned table = b->kind == BENCH_WAIT ? WAIT : TIME;
	size_t n = 0;

	if (b->kind == BENCH_MEMORY)
		table = b->pattern ? MEMORY : MEMORY | OBJECTS;
	else if (b->base && table == TIME)
		table |= BASE;
	for (size_t i = 0; i < BENCH_COUNT(all); i++)
		if (all[i].tables & table)
			out[n++] = &all[i];
	return n;
}
