/* SPDX-License-Identifier: MIT */
/* near_histogram_snapshot: what can be asked of a histogram that no longer changes. */
#include "percpu/histogram.h"

#include <errno.h>
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void near_histogram_snapshot_free(struct near_histogram_snapshot *s)
{
	free(s->counts);
	memset(s, 0, sizeof(*s));
}

/* The inverse of near__histogram_bucket; but the last one has what exceeds the maximum, if a value
 * can. */
struct near_histogram_range near_histogram_snapshot_bucket(const struct near_histogram_snapshot *s,
							   unsigned i)
{
	unsigned linear = 1u << s->precision;
	unsigned shift = i < 2 * linear ? 0 : (i >> s->precision) - 1;
	uint64_t low = (uint64_t)(i - (shift << s->precision)) << shift;

	if (s->max < UINT64_MAX && i + 1 >= s->buckets)
		return (struct near_histogram_range){s->max + 1, UINT64_MAX};
	return (struct near_histogram_range){low, low + (((uint64_t)1 << shift) - 1)};
}

/* Buckets of a higher precision are parts of those of a lower one, and maxima are ends of buckets:
 * only the bucket above the maximum of `from` may not fit into one of `to`. */
int near_histogram_snapshot_merge(struct near_histogram_snapshot *to,
				  const struct near_histogram_snapshot *from)
{
	uint64_t linear = (uint64_t)1 << to->precision;

	if (from->precision < to->precision ||
	    (from->max < to->max && from->counts[from->buckets - 1]))
		return -EINVAL;
	for (unsigned i = 0; i < from->buckets; i++) {
		uint64_t value = near_histogram_snapshot_bucket(from, i).low;

		if (from->counts[i])
			to->counts[value <= to->max
					   ? near__histogram_bucket(value, to->precision, linear)
					   : to->buckets - 1] += from->counts[i];
	}
	to->count += from->count;
	to->sum += from->sum;
	to->sum_error += from->sum_error;
	to->has_exact_sum = to->has_exact_sum && from->has_exact_sum;
	to->exact_sum += from->exact_sum;
	return 0;
}

/* Of the value that `rank` others, itself included, do not exceed. */
static struct near_histogram_range bucket_of_rank(const struct near_histogram_snapshot *s,
						  uint64_t rank)
{
	uint64_t below = 0;

	for (unsigned i = 0; i < s->buckets; i++) {
		below += s->counts[i];
		if (below >= rank && s->counts[i])
			return near_histogram_snapshot_bucket(s, i);
	}
	return (struct near_histogram_range){0, 0};
}

/* The product is rounded: without its last factor, 99.9 percent of 1000 would be above 999. */
uint64_t near__histogram_rank(uint64_t count, double percent)
{
	double part = percent > 0 && percent < 100 ? percent / 100 : 0;
	double rank = part * (double)count * (1 - 2 * DBL_EPSILON);
	uint64_t whole = (uint64_t)rank;

	whole += (double)whole < rank;
	return percent >= 100 || whole > count ? count : whole;
}

struct near_histogram_range
near_histogram_snapshot_percentile(const struct near_histogram_snapshot *s, double percent)
{
	return bucket_of_rank(s, near__histogram_rank(s->count, percent));
}

struct near_histogram_share near_histogram_snapshot_share(const struct near_histogram_snapshot *s,
							  uint64_t value)
{
	uint64_t below = 0, same = 0;
	double count = (double)s->count;

	for (unsigned i = 0; i < s->buckets; i++) {
		struct near_histogram_range r = near_histogram_snapshot_bucket(s, i);

		if (r.low <= value)
			*(r.high <= value ? &below : &same) += s->counts[i];
	}
	if (!s->count)
		return (struct near_histogram_share){1, 1};
	return (struct near_histogram_share){(double)below / count, (double)(below + same) / count};
}

struct near_histogram_range near_histogram_snapshot_min(const struct near_histogram_snapshot *s)
{
	return bucket_of_rank(s, 1);
}

struct near_histogram_range near_histogram_snapshot_max(const struct near_histogram_snapshot *s)
{
	return bucket_of_rank(s, s->count);
}

/* ---- text ---- */

struct writer {
	char *out;
	size_t size, length; /* `length` may exceed what was written */
};

__attribute__((format(printf, 2, 3))) static void text_add(struct writer *w, const char *fmt, ...)
{
	size_t at = w->length < w->size ? w->length : w->size;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(w->out ? w->out + at : NULL, w->size - at, fmt, args);
	va_end(args);
	w->length += n > 0 ? (size_t)n : 0;
}

static const struct {
	const char *name;
	double percent;
} percentiles[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}};

#define EACH_PERCENTILE(i) for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++)

static double mean_of(const struct near_histogram_snapshot *s)
{
	return s->count ? s->sum / (double)s->count : 0;
}

static unsigned long long range_high(struct near_histogram_range r)
{
	return r.high;
}

int near_histogram_snapshot_text(const struct near_histogram_snapshot *s, char *out, size_t size)
{
	struct writer w = {out, size, 0};

	text_add(&w, "count %llu  mean %.1f  min %llu", (unsigned long long)s->count, mean_of(s),
		 (unsigned long long)near_histogram_snapshot_min(s).low);
	EACH_PERCENTILE(i)
	text_add(&w, "  %s %llu", percentiles[i].name,
		 range_high(near_histogram_snapshot_percentile(s, percentiles[i].percent)));
	text_add(&w, "  max %llu", range_high(near_histogram_snapshot_max(s)));
	return (int)w.length;
}

/* Whole numbers: a fraction would have the locale's decimal point. The error covers what that
 * rounds. */
static void add_sum(struct writer *w, const struct near_histogram_snapshot *s)
{
	if (s->has_exact_sum)
		text_add(w, "\"sum\":%llu,\"sum_error\":0", (unsigned long long)s->exact_sum);
	else
		text_add(w, "\"sum\":%.0f,\"sum_error\":%.0f", s->sum,
			 s->sum_error > 0 ? s->sum_error + .5 : 0);
}

int near_histogram_snapshot_json(const struct near_histogram_snapshot *s, char *out, size_t size)
{
	struct writer w = {out, size, 0};
	const char *comma = "";

	text_add(&w, "{\"count\":%llu,", (unsigned long long)s->count);
	add_sum(&w, s);
	text_add(&w, ",\"precision\":%u,\"min\":%llu", s->precision,
		 (unsigned long long)near_histogram_snapshot_min(s).low);
	EACH_PERCENTILE(i)
	text_add(&w, ",\"%s\":%llu", percentiles[i].name,
		 range_high(near_histogram_snapshot_percentile(s, percentiles[i].percent)));
	text_add(&w, ",\"max\":%llu,\"buckets\":[", range_high(near_histogram_snapshot_max(s)));
	for (unsigned i = 0; i < s->buckets; i++) {
		struct near_histogram_range r = near_histogram_snapshot_bucket(s, i);

		if (!s->counts[i])
			continue;
		text_add(&w, "%s[%llu,%llu,%llu]", comma, (unsigned long long)r.low, range_high(r),
			 (unsigned long long)s->counts[i]);
		comma = ",";
	}
	text_add(&w, "]}");
	return (int)w.length;
}
