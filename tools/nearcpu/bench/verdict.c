/* SPDX-License-Identifier: MIT */
/* What a table or a suite shows, in sentences made from its figures. A loss is reported like a
 * win. */
#include "bench/suite.h"

#include <string.h>

/* The default row, if it has rseq. */
static const struct row_result *with_rseq(const struct table_result *t)
{
	const struct row_result *r = default_row(t);

	return r && !row_without_rseq(r) ? r : NULL;
}

static const struct row_result *off_row(const struct table_result *t)
{
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].count && row_without_rseq(&t->rows[i]))
			return &t->rows[i];
	return NULL;
}

bool table_loses(const struct table_result *t)
{
	const struct row_result *on = with_rseq(t), *off = off_row(t);

	return !t->bench->apart && ((on && row_loses(t, on)) || (off && row_loses(t, off)));
}

/* The last one is the one that a benchmark means. */
static const struct row_result *yardstick(const struct table_result *t)
{
	for (size_t i = t->bench->row_count; i-- > 0;)
		if (t->rows[i].count && t->rows[i].row->role == BENCH_YARDSTICK)
			return &t->rows[i];
	return NULL;
}

/* `which` is the rank of the other row among the others; NULL if it is the only one. */
static void compare_with(struct text *text, const struct table_result *t,
			 const struct row_result *r, const struct row_result *other,
			 const char *which)
{
	struct spread ratio = cost_ratio(t, r, other);
	double percent = (ratio.median - 1) * 100;
	const char *before = which ? which : "", *comma = which ? ", " : "";
	const char *label = other->row->label;

	if (ratio_undecided(ratio, r->count < other->count ? r->count : other->count))
		say(text, "no clear difference from %s%s\"%s\" (%+.1f %%, within the spread)",
		    before, comma, label, percent);
	else if (ratio.median > 0.9 && ratio.median < 1.1)
		say(text, "%.1f %% %s than %s%s\"%s\"%s", percent < 0 ? -percent : percent,
		    percent < 0 ? "less" : "more", before, comma, label,
		    percent < 0 ? "" : ", so it loses here");
	else
		say(text, "%s %s what %s%s\"%s\"%s costs%s", say_ratio(ratio.median).text,
		    ratio.median < 1 ? "of" : "times", before, comma, label, which ? "," : "",
		    ratio.median < 1 ? "" : ", so it loses here");
}

static void say_ours(struct text *text, const struct table_result *t, const struct row_result *r)
{
	const struct row_result *best = best_other(t, r), *worst = worst_other(t, r);
	bool several = worst != best;

	say(text, "\"%s\" costs %s%s %s", r->row->label,
	    say_cost(t->bench->kind, row_cost(t, r).median).text,
	    t->bench->kind == BENCH_MEMORY ? ""
	    : t->bench->kind == BENCH_WAIT ? " of wall time"
					   : " of CPU time",
	    t->bench->op);
	if (best) {
		say(text, ": ");
		compare_with(text, t, r, best, several ? "the best of the others" : NULL);
	}
	if (several) {
		say(text, "; ");
		compare_with(text, t, r, worst, "the worst");
	}
	say(text, ". ");
}

/* Of the others: the least of what is measured. */
static const struct row_result *best_by(const struct table_result *t, const struct row_result *r,
					enum bench_measure m)
{
	const struct row_result *best = NULL;

	for (size_t i = 0; i < t->bench->row_count; i++) {
		const struct row_result *other = &t->rows[i];

		if (other->count && other->row->role == BENCH_PEER && other != r &&
		    (!best ||
		     row_measure_of(t, other, m).median < row_measure_of(t, best, m).median))
			best = other;
	}
	return best;
}

/* A sentence about fairness and waits. */
static void say_waits(struct text *text, const struct table_result *t, const struct row_result *r)
{
	const struct row_result *fair = best_by(t, r, BENCH_UNFAIRNESS),
				*quick = best_by(t, r, BENCH_P999);

	if (t->bench->kind != BENCH_WAIT || t->bench->latency || t->threads < 2)
		return;
	say(text, "The least served of its threads got %.2f of what the most served one got",
	    1 / row_measure_of(t, r, BENCH_UNFAIRNESS).median);
	if (fair)
		say(text, " (best of the others: \"%s\", %.2f)", fair->row->label,
		    1 / row_measure_of(t, fair, BENCH_UNFAIRNESS).median);
	say(text, "; 999 of 1,000 waits took at most %s",
	    say_cost(BENCH_TIME, row_measure_of(t, r, BENCH_P999).median).text);
	if (quick)
		say(text, " (best of the others: \"%s\", %s)", quick->row->label,
		    say_cost(BENCH_TIME, row_measure_of(t, quick, BENCH_P999).median).text);
	say(text, ". ");
}

static void say_off(struct text *text, const struct table_result *t, const struct row_result *r)
{
	const struct row_result *best = best_other(t, r);

	say(text, "Without rseq it costs %s", say_cost(t->bench->kind, row_cost(t, r).median).text);
	if (best) {
		say(text, ": ");
		compare_with(text, t, r, best, NULL);
	}
	say(text, ". ");
}

static void say_yardstick(struct text *text, const struct table_result *t,
			  const struct row_result *r, const struct row_result *yard)
{
	if (t->bench->base) {
		const struct row_result *base = find_row(t, t->bench->base);
		double above = base ? row_cost(t, r).median - row_cost(t, base).median : 0;

		if (base && above > 0)
			say(text, "That is %s above the %s. ", say_cost(t->bench->kind, above).text,
			    base->row->label);
		else if (base)
			say(text, "That is no more than the %s. ", base->row->label);
		return;
	}
	say(text, "The yardstick, \"%s\", costs %s. ", yard->row->label,
	    say_cost(t->bench->kind, row_cost(t, yard).median).text);
}

void table_verdict(const struct table_result *t, char *out, size_t size)
{
	const struct row_result *on = with_rseq(t), *off = off_row(t), *yard = yardstick(t);
	struct text text = {out, size};

	out[0] = 0;
	if (t->bench->apart) {
		say(&text, "Each row is another call; they are not compared.");
		return;
	}
	if (!on && !off) {
		say(&text, "Nothing of ours could be measured here.");
		return;
	}
	if (on)
		say_ours(&text, t, on);
	else
		say(&text, "No row with sequences could be measured. ");
	if (on)
		say_waits(&text, t, on);
	if (on && yard)
		say_yardstick(&text, t, on, yard);
	if (off)
		say_off(&text, t, off);
	for (size_t end = strlen(out); end && out[end - 1] == ' '; end--)
		out[end - 1] = 0;
}

/* ---- suites ---- */

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
		       double mean, const struct suite_measure *m)
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
static unsigned beaten(const struct suite *s, size_t row, const struct suite_measure *m)
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

bool suite_loses(const struct suite *s, const struct suite_measure *m)
{
	const struct table_result *first = suite_first(s);
	size_t row;

	if (!first || !find_ours(first, &row))
		return false;
	return suite_mean(s, row, m, 0).behind || beaten(s, row, m);
}

bool suite_verdict(const struct suite *s, const struct suite_measure *m, char *out, size_t size)
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
