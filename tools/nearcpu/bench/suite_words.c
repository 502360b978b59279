/* SPDX-License-Identifier: MIT */
/* The figures of a suite in sentences. A loss is reported like a win. */
#include "bench/suite.h"

#include <string.h>

#define WORST 4

/* The first of ours. */
static bool find_ours(const struct table_result *t, size_t *row)
{
	for (size_t i = 1; i < t->bench->row_count; i++)
		if (t->rows[i].row->role == BENCH_OURS) {
			*row = i;
			return true;
		}
	return false;
}

static void say_others(struct text *text, const struct suite *s, const struct table_result *first,
		       double mean, enum suite_measure m)
{
	const char *before = " Lower means have ";
	unsigned others = 0;

	for (size_t i = 1; i < first->bench->row_count; i++) {
		double other = suite_mean(s, i, m, 0).mean;

		if (first->rows[i].row->role != BENCH_PEER || other <= 0)
			continue;
		others++;
		if (other < mean) {
			say(text, "%s%s (%.2f)", before, first->rows[i].row->name, other);
			before = ", ";
		}
	}
	if (*before == ',')
		say(text, ".");
	else if (others)
		say(text, " No other has a lower mean.");
}

/* Lines in which a row of others is ahead of ours. */
static unsigned beaten(const struct suite *s, size_t row, enum suite_measure m)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->report->count; i++) {
		const struct table_result *t = suite_line(s, i);
		struct spread own, other;
		bool ahead = false;

		if (!t || !suite_ratio(t, row, m, &own))
			continue;
		for (size_t j = 0; j < t->bench->row_count; j++)
			ahead |= t->rows[j].row->role == BENCH_PEER &&
				 suite_ratio(t, j, m, &other) && other.median < own.median;
		n += ahead;
	}
	return n;
}

bool suite_loses(const struct suite *s, enum suite_measure m)
{
	const struct table_result *first = suite_first(s);
	size_t row;

	if (!first || !find_ours(first, &row))
		return false;
	return suite_mean(s, row, m, 0).behind || beaten(s, row, m);
}

bool suite_verdict(const struct suite *s, enum suite_measure m, char *out, size_t size)
{
	const struct table_result *first = suite_first(s);
	struct text text = {out, size};
	struct suite_worst worst[WORST];
	struct suite_mean mean;
	size_t row, n;

	out[0] = 0;
	if (!first || !find_ours(first, &row))
		return false;
	mean = suite_mean(s, row, m, 0);
	if (!mean.lines)
		return false;
	say(&text,
	    "%s: %.2f of %s as the geometric mean of %u lines, behind it in %u; behind some "
	    "other in %u.",
	    first->rows[row].row->name, mean.mean, first->rows[0].row->name, mean.lines,
	    mean.behind, beaten(s, row, m));
	say_others(&text, s, first, mean.mean, m);
	n = suite_worst(s, row, m, worst, WORST);
	say(&text, " Its worst:");
	for (size_t i = 0; i < n; i++)
		say(&text, "%s %s with %u (%.2f)", i ? "," : "", worst[i].table->bench->part,
		    worst[i].table->threads, worst[i].ratio);
	say(&text, ".");
	return true;
}
