/* SPDX-License-Identifier: MIT */
/* columns: the columns of the sources' tables, the same for the terminal and the page. */
#include "bench/report.h"

static double total_ns(const struct table_result *t, const struct row_result *r,
		       enum sample_part part)
{
	return row_part_ns(r, part) * table_ops(t, r);
}

static struct word wall_ms(const struct table_result *t, const struct row_result *r)
{
	return say_ms(total_ns(t, r, PART_WALL));
}

static struct word user_ms(const struct table_result *t, const struct row_result *r)
{
	return say_ms(total_ns(t, r, PART_USER));
}

static struct word system_ms(const struct table_result *t, const struct row_result *r)
{
	return say_ms(total_ns(t, r, PART_SYSTEM));
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
	struct word w;

	snprintf(w.text, sizeof(w.text), "%.*f", row_cost(t, r).median < 99.95 ? 2 : 0,
		 row_cost(t, r).median);
	return w;
}

static struct word above_base(const struct table_result *t, const struct row_result *r)
{
	const struct row_result *base = find_row(t, t->bench->base);
	struct word w = {"-"};

	if (base && base != r)
		snprintf(w.text, sizeof(w.text), "%.2f",
			 row_cost(t, r).median - row_cost(t, base).median);
	return w;
}

static struct word megabytes(const struct table_result *t, const struct row_result *r)
{
	struct word w;

	snprintf(w.text, sizeof(w.text), "%.1f",
		 row_cost(t, r).median * (t->bench->pattern ? 1 : (double)t->iterations) / 1e6);
	return w;
}

/* How many times the best of the others does: more is better. */
static struct word ratio(const struct table_result *t, const struct row_result *r)
{
	const struct row_result *best = best_other(t, r);
	struct word w = {"-"};

	return best ? say_ratio(cost_ratio(t, best, r).median) : w;
}

/* Throughput in proportion to that of the row that the table is about. */
static struct word throughput(const struct table_result *t, const struct row_result *r)
{
	const struct row_result *against = find_row(t, t->bench->against);
	struct word w = {"-"};

	if (against)
		snprintf(w.text, sizeof(w.text), "%.2f", cost_ratio(t, against, r).median);
	return w;
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
	struct word w = {"-"};

	if (t->threads > 1)
		snprintf(w.text, sizeof(w.text), "%.2f",
			 1 / row_measure_of(t, r, BENCH_UNFAIRNESS).median);
	return w;
}

static struct word wait_p999(const struct table_result *t, const struct row_result *r)
{
	return say_cost(BENCH_TIME, row_measure_of(t, r, BENCH_P999).median);
}

static struct word spread(const struct table_result *t, const struct row_result *r)
{
	struct spread s = row_cost(t, r);
	double percent = (s.high - s.low) / s.median * 100;
	struct word w;

	snprintf(w.text, sizeof(w.text), "%.*f %%", percent < 9.95 ? 1 : 0, percent);
	return w;
}

static const struct column col_wall = {"wall ms", 8, wall_ms};
static const struct column col_wall_rate = {"wall op/s", 10, wall_rate};
static const struct column col_user = {"user ms", 8, user_ms};
static const struct column col_system = {"sys ms", 7, system_ms};
static const struct column col_cpu_rate = {"CPU op/s", 9, cpu_rate};
static const struct column col_ns = {"ns/op", 8, cost};
static const struct column col_above = {"above", 7, above_base};
static const struct column col_total = {"MB in all", 12, megabytes};
static const struct column col_bytes = {"bytes each", 12, cost};
static const struct column col_ratio = {"ratio", 7, ratio};
static const struct column col_spread = {"spread", 8, spread};

static const struct column col_wall_cost = {"wall/op", 10, wall_cost};
static const struct column col_cpu_cost = {"CPU/op", 10, cpu_cost};
static const struct column col_throughput = {"ratio", 8, throughput};
static const struct column col_fairness = {"fairness", 10, fairness};
static const struct column col_p999 = {"p99.9 wait", 12, wait_p999};

size_t table_columns(const struct table_result *t, const struct column *out[MAX_COLUMNS])
{
	size_t n = 0;

	if (t->bench->kind == BENCH_MEMORY) {
		out[n++] = &col_total;
		if (!t->bench->pattern)
			out[n++] = &col_bytes;
	} else if (t->bench->kind == BENCH_WAIT) {
		out[n++] = &col_wall_cost;
		out[n++] = &col_wall_rate;
		out[n++] = &col_cpu_cost;
		out[n++] = &col_throughput;
		out[n++] = &col_spread;
		out[n++] = &col_fairness;
		out[n++] = &col_p999;
		return n;
	} else {
		out[n++] = &col_wall;
		out[n++] = &col_wall_rate;
		out[n++] = &col_user;
		out[n++] = &col_system;
		out[n++] = &col_cpu_rate;
		out[n++] = &col_ns;
		if (t->bench->base)
			out[n++] = &col_above;
	}
	out[n++] = &col_ratio;
	out[n++] = &col_spread;
	return n;
}
