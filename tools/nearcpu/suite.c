/* SPDX-License-Identifier: MIT */
#include "suite.h"

#include <math.h>
#include <string.h>

static const struct {
	const char *title, *unit, *key;
} measures[] = {
	[SUITE_CPU] = {"CPU time, user and system", "ms", "cpu"},
	[SUITE_MEMORY] = {"Memory at the peak", "MB", "memory"},
	[SUITE_P99] = {"Single calls, 99 of 100 take at most", "ns", "p99"},
	[SUITE_P999] = {"Single calls, 999 of 1,000 take at most", "ns", "p999"},
};

const char *suite_title(enum suite_measure m)
{
	return measures[m].title;
}

const char *suite_unit(enum suite_measure m)
{
	return measures[m].unit;
}

const char *suite_key(enum suite_measure m)
{
	return measures[m].key;
}

bool bench_is_only(const struct bench *b, const struct bench_options *o)
{
	const char *at = o->only;
	size_t len;

	if (!at)
		return true;
	for (; b->part; at += len + 1) {
		len = strcspn(at, ",");
		if (strlen(b->part) == len && strncmp(at, b->part, len) == 0)
			return true;
		if (!at[len])
			break;
	}
	return false;
}

bool suite_has(const struct table_result *t)
{
	if (t->bench->kind != BENCH_ALLOCATOR)
		return false;
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].count || t->rows[i].note[0])
			return true;
	return false;
}

const struct table_result *suite_first(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++)
		if (suite_has(&report->tables[i]))
			return &report->tables[i];
	return NULL;
}

struct word suite_line_name(const struct table_result *t)
{
	struct word w;

	snprintf(w.text, sizeof(w.text), "%-12s%5u", t->bench->part, t->threads);
	return w;
}

/* A call can be shorter than the clock tells. */
static double value(const struct bench_sample *s, enum suite_measure m)
{
	switch (m) {
	case SUITE_CPU:
		return (double)(s->user_ns + s->system_ns) / 1e6;
	case SUITE_MEMORY:
		return (double)s->bytes / 1e6;
	case SUITE_P99:
		return s->p99_ns ? (double)s->p99_ns : 1;
	default:
		return s->p999_ns ? (double)s->p999_ns : 1;
	}
}

struct spread suite_value(const struct table_result *t, size_t row, enum suite_measure m)
{
	const struct row_result *r = &t->rows[row];
	double values[MAX_REPEAT];

	for (unsigned i = 0; i < r->count; i++)
		values[i] = value(&r->samples[i], m);
	return spread_of(values, r->count);
}

bool suite_ratio(const struct table_result *t, size_t row, enum suite_measure m,
		 struct spread *ratio)
{
	const struct row_result *r = &t->rows[row], *first = &t->rows[0];
	unsigned count = r->count < first->count ? r->count : first->count;
	double values[MAX_REPEAT];

	for (unsigned i = 0; i < count; i++)
		values[i] = value(&r->samples[i], m) / value(&first->samples[i], m);
	*ratio = spread_of(values, count);
	return count;
}

struct suite_mean suite_mean(const struct report *report, size_t row, enum suite_measure m,
			     unsigned threads)
{
	struct suite_mean mean = {0};
	double logs = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct table_result *t = &report->tables[i];
		struct spread ratio;

		if (!suite_has(t) || (threads && t->threads != threads) ||
		    !suite_ratio(t, row, m, &ratio))
			continue;
		logs += log(ratio.median);
		mean.lines++;
		mean.behind += ratio.median > 1;
	}
	if (mean.lines)
		mean.mean = exp(logs / mean.lines);
	return mean;
}

static unsigned lines_with(const struct report *report, unsigned threads)
{
	unsigned n = 0;

	for (size_t i = 0; i < report->count; i++)
		n += suite_has(&report->tables[i]) && report->tables[i].threads == threads;
	return n;
}

size_t suite_threads(const struct report *report, unsigned out[MAX_THREAD_COUNTS])
{
	size_t n = 0;

	for (unsigned threads = 1; threads <= BENCH_MAX_THREADS && n < MAX_THREAD_COUNTS; threads++)
		if (lines_with(report, threads) > 1)
			out[n++] = threads;
	return n;
}

size_t suite_worst(const struct report *report, size_t row, enum suite_measure m,
		   struct suite_worst *out, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct table_result *t = &report->tables[i];
		struct spread ratio;
		size_t at;

		if (!suite_has(t) || !suite_ratio(t, row, m, &ratio))
			continue;
		for (at = found; at > 0 && out[at - 1].ratio < ratio.median; at--)
			if (at < n)
				out[at] = out[at - 1];
		if (at < n)
			out[at] = (struct suite_worst){t, ratio.median};
		found += found < n;
	}
	return found;
}
