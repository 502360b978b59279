/* SPDX-License-Identifier: MIT */
/* The figures of a table, from its samples. */
#include "program/report.h"

#include <string.h>

/* A thread that did nothing, or a call that the clock measures as 0, counts as one. */
static double sample_measure(const struct table_result *t, const struct bench_sample *s,
			     enum bench_measure m)
{
	double cpu = (double)(s->user_ns + s->system_ns), ops = (double)s->ops;

	switch (m) {
	case BENCH_COST:
		if (t->bench->kind == BENCH_MEMORY)
			return (double)s->bytes / ops;
		return (t->bench->kind == BENCH_WAIT ? (double)s->wall_ns : cpu) / ops;
	case BENCH_UNFAIRNESS:
		return (double)s->most / (s->least ? (double)s->least : 1);
	case BENCH_P99:
		return s->p99_ns ? (double)s->p99_ns : 1;
	case BENCH_P999:
		return s->p999_ns ? (double)s->p999_ns : 1;
	case BENCH_WALL:
		return (double)s->wall_ns / ops;
	case BENCH_USER:
		return (double)s->user_ns / ops;
	case BENCH_SYSTEM:
		return (double)s->system_ns / ops;
	case BENCH_CPU:
		return cpu / ops;
	case BENCH_CPU_MS:
		return cpu / 1e6;
	case BENCH_MEGABYTES:
		return (double)s->bytes / 1e6;
	}
	return 0;
}

struct spread row_measure_of(const struct table_result *t, const struct row_result *r,
			     enum bench_measure m)
{
	double values[MAX_REPEAT];

	for (unsigned i = 0; i < r->count; i++)
		values[i] = sample_measure(t, &r->samples[i], m);
	return spread_of(values, r->count);
}

struct spread row_cost(const struct table_result *t, const struct row_result *r)
{
	return row_measure_of(t, r, BENCH_COST);
}

struct spread measure_ratio(const struct table_result *t, const struct row_result *a,
			    const struct row_result *b, enum bench_measure m)
{
	double values[MAX_REPEAT];
	unsigned count = a->count < b->count ? a->count : b->count;

	for (unsigned i = 0; i < count; i++)
		values[i] =
			sample_measure(t, &a->samples[i], m) / sample_measure(t, &b->samples[i], m);
	return spread_of(values, count);
}

struct spread cost_ratio(const struct table_result *t, const struct row_result *a,
			 const struct row_result *b)
{
	return measure_ratio(t, a, b, BENCH_COST);
}

const struct row_result *find_row(const struct table_result *t, const char *name)
{
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (strcmp(t->rows[i].row->name, name) == 0)
			return t->rows[i].count ? &t->rows[i] : NULL;
	return NULL;
}

/* Ours do not compete with each other, and nobody with a yardstick. */
static bool competes(const struct table_result *t, const struct row_result *r,
		     const struct row_result *other)
{
	if (t->bench->apart || r == other || !other->count || other->row->role == BENCH_YARDSTICK)
		return false;
	return r->row->role != BENCH_OURS || other->row->role != BENCH_OURS;
}

const struct row_result *best_other(const struct table_result *t, const struct row_result *r)
{
	const struct row_result *found = NULL;

	for (size_t i = 0; i < t->bench->row_count; i++)
		if (competes(t, r, &t->rows[i]) &&
		    (!found || row_cost(t, &t->rows[i]).median < row_cost(t, found).median))
			found = &t->rows[i];
	return found;
}

/* Whether the row has the settings of this process. */
static bool is_without_setting(const struct bench_row *row, const struct near_rseq_status *here)
{
	bool by_cpu = here->slot_kind == NEAR_SLOT_CPU;

	if (!row->conf)
		return !row->tunables;
	if (strstr(row->conf, "rseq:off"))
		return !here->live;
	return here->live && strstr(row->conf, by_cpu ? "slot:cpu" : "slot:cid");
}

/* Where all rows have settings, as the slots of the hit counter, it is the one that changes
 * nothing; and if that was not measured, the last one. */
const struct row_result *default_row(const struct table_result *t)
{
	const struct row_result *last = NULL;
	struct near_rseq_status here;

	near_rseq_status(&here, sizeof(here));
	for (size_t i = 0; i < t->bench->row_count && !t->bench->apart; i++) {
		const struct row_result *r = &t->rows[i];

		if (!r->count || r->row->role != BENCH_OURS)
			continue;
		if (is_without_setting(r->row, &here))
			return r;
		if (!last || !r->row->tunables)
			last = r;
	}
	return last;
}

bool row_gain(const struct table_result *t, const struct row_result *r, struct spread *gain,
	      bool *decided)
{
	const struct row_result *best = best_other(t, r);

	if (!best)
		return false;
	*gain = cost_ratio(t, best, r);
	if (r->count < 3 || best->count < 3)
		*decided = gain->median < 0.9 || gain->median > 1.1;
	else
		*decided = gain->low > 1 || gain->high < 1;
	return true;
}

bool figure_value(const struct table_result *t, const struct bench_figure *f, double *value)
{
	const struct row_result *row = find_row(t, f->row);
	const struct row_result *against = f->against ? find_row(t, f->against) : NULL;

	const struct row_result *less = f->less ? find_row(t, f->less) : NULL;

	if (!row || (f->against && !against) || (f->less && !less))
		return false;
	if ((f->from && t->threads < f->from) || (f->to && t->threads > f->to))
		return false;
	if (!f->against)
		*value = row_cost(t, row).median;
	else if (f->difference)
		*value = row_cost(t, row).median - row_cost(t, against).median;
	else if (less)
		*value = (row_cost(t, row).median - row_cost(t, less).median) /
			 row_cost(t, against).median;
	else
		*value = measure_ratio(t, row, against, f->measure).median;
	return true;
}
