/* SPDX-License-Identifier: MIT */
/* The columns of the tables, the same for the terminal and the page. */
#include "bench/report.h"

static struct word part_ms(const struct table_result *t, const struct row_result *r,
			   enum sample_part part)
{
	return say_ms(row_part_ns(r, part) * table_ops(t, r));
}

static struct word wall_ms(const struct table_result *t, const struct row_result *r)
{
	return part_ms(t, r, PART_WALL);
}

static struct word user_ms(const struct table_result *t, const struct row_result *r)
{
	return part_ms(t, r, PART_USER);
}

static struct word system_ms(const struct table_result *t, const struct row_result *r)
{
	return part_ms(t, r, PART_SYSTEM);
}

static struct word wall_rate(const struct table_result *t, const struct row_result *r)
{
	(void)t;
	return say_rate(1e9 / row_part_ns(r, PART_WALL));
}

static struct word cpu_rate(const struct table_result *t, const struct row_result *r)
{
	return say_rate(1e9 / row_cost(t, r).median);
}

static struct word cost(const struct table_result *t, const struct row_result *r)
{
	double median = row_cost(t, r).median;

	return word("%.*f", median < 99.95 ? 2 : 0, median);
}

static struct word above_base(const struct table_result *t, const struct row_result *r)
{
	const struct row_result *base = find_row(t, t->bench->base);

	if (!base || base == r)
		return word("-");
	return word("%.2f", row_cost(t, r).median - row_cost(t, base).median);
}

static struct word megabytes(const struct table_result *t, const struct row_result *r)
{
	double objects = t->bench->pattern ? 1 : (double)t->iterations;

	return word("%.1f", row_cost(t, r).median * objects / 1e6);
}

/* The cost of the best competitor over that of the row. */
static struct word ratio(const struct table_result *t, const struct row_result *r)
{
	const struct row_result *best = best_other(t, r);

	return best ? say_ratio(cost_ratio(t, best, r).median) : word("-");
}

/* Throughput in proportion to that of the row that the table names. */
static struct word throughput(const struct table_result *t, const struct row_result *r)
{
	const struct row_result *against = find_row(t, t->bench->against);

	return against ? word("%.2f", cost_ratio(t, against, r).median) : word("-");
}

static struct word cpu_cost(const struct table_result *t, const struct row_result *r)
{
	(void)t;
	return say_cost(BENCH_TIME, row_part_ns(r, PART_CPU));
}

static struct word wall_cost(const struct table_result *t, const struct row_result *r)
{
	return say_cost(BENCH_TIME, row_cost(t, r).median);
}

static struct word fairness(const struct table_result *t, const struct row_result *r)
{
	if (t->threads == 1)
		return word("-");
	return word("%.2f", 1 / row_measure_of(t, r, BENCH_UNFAIRNESS).median);
}

static struct word wait_p999(const struct table_result *t, const struct row_result *r)
{
	return say_cost(BENCH_TIME, row_measure_of(t, r, BENCH_P999).median);
}

static struct word spread(const struct table_result *t, const struct row_result *r)
{
	struct spread s = row_cost(t, r);
	double percent = (s.high - s.low) / s.median * 100;

	return word("%.*f %%", percent < 9.95 ? 1 : 0, percent);
}

enum { TIME = 1, MEMORY = 2, OBJECTS = 4, WAIT = 8, BASE = 16, ANY = 31 };

/* In their order, and for which tables. */
static const struct {
	unsigned tables;
	struct column column;
} all[] = {
	{MEMORY, {"MB in all", 12, megabytes}},
	{OBJECTS, {"bytes each", 12, cost}},
	{WAIT, {"wall/op", 10, wall_cost}},
	{TIME, {"wall ms", 8, wall_ms}},
	{TIME | WAIT, {"wall op/s", 10, wall_rate}},
	{WAIT, {"CPU/op", 10, cpu_cost}},
	{TIME, {"user ms", 8, user_ms}},
	{TIME, {"sys ms", 7, system_ms}},
	{TIME, {"CPU op/s", 9, cpu_rate}},
	{TIME, {"ns/op", 8, cost}},
	{BASE, {"above", 7, above_base}},
	{TIME | MEMORY, {"ratio", 7, ratio}},
	{WAIT, {"ratio", 8, throughput}},
	{ANY, {"spread", 8, spread}},
	{WAIT, {"fairness", 10, fairness}},
	{WAIT, {"p99.9 wait", 12, wait_p999}},
};

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
			out[n++] = &all[i].column;
	return n;
}
