/* SPDX-License-Identifier: MIT */
/* What the terminal and the page have in common: numbers with their units, titles, lines
 * and columns of a table. */
#include "program/report.h"

#include <string.h>

const char *const role_names[] = {"peer", "ours", "yardstick"};

/* Three significant digits, but at most four decimals. */
static struct word three(double v, const char *unit)
{
	int decimals = v < 0.09995 ? 4 : v < 0.9995 ? 3 : v < 9.995 ? 2 : v < 99.95 ? 1 : 0;

	return word("%.*f%s", decimals, v, unit);
}

struct word say_ratio(double ratio) { return three(ratio, ""); }

struct word say_rate(double per_second)
{
	static const char *const units[] = {"", " k", " M", " G", " T"};
	size_t i = 0;

	while (per_second >= 999.5 && i + 1 < sizeof(units) / sizeof(units[0])) {
		per_second /= 1000;
		i++;
	}
	return three(per_second, units[i]);
}

struct word say_cost(enum bench_kind kind, double cost)
{
	if (kind == BENCH_MEMORY)
		return cost < 1e6 ? three(cost, " bytes") : three(cost / 1e6, " MB");
	if (cost < 1000)
		return three(cost, " ns");
	return cost < 1e6 ? three(cost / 1e3, " us") : three(cost / 1e6, " ms");
}

struct word say_count(uint64_t n)
{
	struct word digits = word("%llu", (unsigned long long)n), w;
	size_t len = strlen(digits.text), to = 0;

	for (size_t i = 0; i < len; i++) {
		w.text[to++] = digits.text[i];
		if ((len - i) % 3 == 1 && i + 1 < len)
			w.text[to++] = ',';
	}
	w.text[to] = 0;
	return w;
}

struct word say_spread(struct spread s, int decimals)
{
	double percent = (s.high - s.low) / s.median * 100;

	if (!(s.median > 0))
		return word("-");
	if (!(percent < 9999.5))
		return word(">9999 %%");
	return word("%.*f %%", percent < 9.95 ? decimals : 0, percent);
}

struct word say_ms(double ns) { return word("%.*f", ns < 99.95e6 ? 1 : 0, ns / 1e6); }

bool row_is_scaled(const struct table_result *t, const struct row_result *r)
{
	return r->count && t->fixed && r->iterations != t->iterations;
}

static const char *plural(unsigned n) { return n == 1 ? "" : "s"; }

void table_name(const struct table_result *t, char *out, size_t size)
{
	const struct bench *b = t->bench;

	snprintf(out, size, "%s%s%s", b->name, b->part ? "." : "", b->part ? b->part : "");
	if (!b->fixed_threads && strlen(out) < size)
		snprintf(out + strlen(out), size - strlen(out), ", %u thread%s", t->threads,
			 plural(t->threads));
}

void table_title(const struct table_result *t, char *out, size_t size)
{
	if (t->bench->fixed_threads)
		snprintf(out, size, "%s", t->bench->title);
	else
		snprintf(out, size, "%s, %u thread%s", t->bench->title, t->threads,
			 plural(t->threads));
}

static unsigned fewest_samples(const struct table_result *t)
{
	unsigned fewest = t->wanted;

	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].count && t->rows[i].count < fewest)
			fewest = t->rows[i].count;
	return fewest;
}

/* Of rows that measure themselves. */
static uint64_t run_ops(const struct table_result *t)
{
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].count)
			return t->rows[i].samples[0].ops;
	return 0;
}

double table_ops(const struct table_result *t, const struct row_result *r)
{
	if (t->bench->apart)
		return (double)t->iterations;
	return r->row->run ? (double)run_ops(t) : (double)t->iterations * t->threads;
}

static const char *against_label(const struct bench *b)
{
	for (size_t i = 0; i < b->row_count; i++)
		if (strcmp(b->rows[i].name, b->against) == 0)
			return b->rows[i].label;
	return b->against;
}

void table_conditions(const struct table_result *t, char *out, size_t size)
{
	unsigned count = fewest_samples(t);
	bool scaled = false;
	int n;

	for (size_t i = 0; i < t->bench->row_count; i++)
		scaled |= row_is_scaled(t, &t->rows[i]);
	if (t->bench->kind == BENCH_MEMORY && t->bench->pattern)
		n = snprintf(out, size, "resident memory of a process");
	else if (t->bench->kind == BENCH_MEMORY)
		/* "a counter" without its article */
		n = snprintf(out, size, "%s%ss", say_count(t->iterations).text,
			     strchr(t->bench->op, ' '));
	else if (t->bench->kind == BENCH_WAIT)
		n = snprintf(out, size, "windows of %s ms; ratio: throughput to that of \"%s\"",
			     say_count(t->iterations).text, against_label(t->bench));
	else if (t->bench->apart)
		n = snprintf(out, size,
			     "times for %s calls (fewer where they are long, in proportion)",
			     say_count(t->iterations).text);
	else if (t->bench->rows[0].run)
		n = snprintf(out, size, "%s operations", say_count(run_ops(t)).text);
	else
		n = snprintf(out, size, "%s%s operations a thread%s", t->fixed ? "" : "times for ",
			     say_count(t->iterations).text,
			     scaled ? " (~ fewer, in proportion)" : "");
	if (n > 0 && (size_t)n < size)
		snprintf(out + n, size - (size_t)n, "; median of %u%s", count,
			 count < t->wanted ? ", as time was short" : "");
}

bool figure_line(const struct table_result *t, const struct bench_figure *f, char *out, size_t size)
{
	bool is_ratio = f->against && !f->difference;
	struct word found, goal;
	double value;

	if (!figure_value(t, f, &value))
		return false;
	found = is_ratio ? say_ratio(1 / value) : say_cost(t->bench->kind, value);
	goal = is_ratio ? say_ratio(1 / f->goal) : say_cost(t->bench->kind, f->goal);
	snprintf(out, size, "%12s  %s; at %s %s: %s", found.text, f->text,
		 is_ratio ? "least" : "most", goal.text, value <= f->goal ? "reached" : "missed");
	return true;
}

/* ---- columns ---- */

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
	SHOWS_P99,
};

enum { TIME = 1, MEMORY = 2, OBJECTS = 4, WAIT = 8, BASE = 16, LATENCY = 32, ANY = 63 };

/* In their order, and for which tables. */
static const struct column all[] = {
	{MEMORY, "MB in all", 12, SHOWS_MEGABYTES, BENCH_COST},
	{OBJECTS, "bytes each", 12, SHOWS_COST, BENCH_COST},
	{WAIT | LATENCY, "wall/op", 10, SHOWS_TIME, BENCH_WALL},
	{TIME, "wall ms", 8, SHOWS_MS, BENCH_WALL},
	{TIME | WAIT | LATENCY, "wall op/s", 10, SHOWS_RATE, BENCH_WALL},
	{WAIT | LATENCY, "CPU/op", 10, SHOWS_TIME, BENCH_CPU},
	{TIME, "user ms", 8, SHOWS_MS, BENCH_USER},
	{TIME, "sys ms", 7, SHOWS_MS, BENCH_SYSTEM},
	{TIME, "CPU op/s", 9, SHOWS_RATE, BENCH_CPU},
	{TIME, "ns/op", 8, SHOWS_COST, BENCH_COST},
	{BASE, "above", 7, SHOWS_ABOVE_BASE, BENCH_COST},
	{TIME | MEMORY, "ratio", 7, SHOWS_RATIO, BENCH_COST},
	{WAIT | LATENCY, "ratio", 8, SHOWS_THROUGHPUT, BENCH_COST},
	{ANY, "spread", 8, SHOWS_SPREAD, BENCH_COST},
	{WAIT, "fairness", 10, SHOWS_FAIRNESS, BENCH_COST},
	{LATENCY, "p99", 10, SHOWS_P99, BENCH_COST},
	{WAIT, "p99.9 wait", 12, SHOWS_TIME, BENCH_P999},
};

static struct word say_throughput(double ratio)
{
	return ratio < 9999.5 ? word("%.*f", ratio < 999.5 ? 2 : 0, ratio) : word(">9999");
}

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
		return say_throughput(cost_ratio(t, other, r).median);
	return word("%.2f", row_cost(t, r).median - row_cost(t, other).median);
}

struct word column_cell(const struct column *c, const struct table_result *t,
			const struct row_result *r)
{
	struct spread s = row_cost(t, r);
	double ns = row_measure_of(t, r, c->part).median;
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
		return say_spread(s, 1);
	case SHOWS_FAIRNESS:
		if (t->threads == 1)
			return word("-");
		return word("%.2f", 1 / row_measure_of(t, r, BENCH_UNFAIRNESS).median);
	case SHOWS_P99:
		return r->samples[0].p99_ns
			       ? say_cost(BENCH_TIME, row_measure_of(t, r, BENCH_P99).median)
			       : word("-");
	default:
		return compared(c->shows, t, r);
	}
}

size_t table_columns(const struct table_result *t, const struct column *out[MAX_COLUMNS])
{
	const struct bench *b = t->bench;
	unsigned table = b->latency ? LATENCY : b->kind == BENCH_WAIT ? WAIT : TIME;
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
