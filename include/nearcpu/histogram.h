/* SPDX-License-Identifier: MIT */
/* near_histogram: how often which value occurred, for latencies and sizes.
 *
 * Buckets are linear within each power of two (HdrHistogram's scheme): 2^precision of them, so that
 * a value is known to a relative error of at most 1 / 2^precision, from 0 to the largest 64-bit
 * number. Each slot has its own buckets. A record is one sequence.
 *
 * Cost:      record: a counter add and about .6 ns to find the bucket, 1.5 ns from a double; with
 *            an exact sum another add and a call. In a region about 2 ns. record_exemplar: 8.5 ns.
 *            read, reset: a load for each bucket and slot in use.
 * Memory:    (65 - precision) * 2^precision * 8 bytes at most per slot in use, by pages that are
 *            touched: 15 KiB with precision 5 (3 %) and values of 64 bits, 6 KiB with values up to
 *            2^30. The same once from the first reset on. A snapshot: twice the same from malloc.
 * Safety:    record of all kinds, percentile, exemplar: any thread, signal handlers. read, reset:
 *            any thread. Fork: the child has its own copy, except of a histogram in a region. errno
 *            is left alone. A process that is killed loses nothing that it recorded in a region;
 *            killed within a record, the value may be counted and be missing from an exact sum;
 *            killed within a reset, what that took is gone.
 * Order:     relaxed, as near_counter. A snapshot is not that of one moment: it contains some of
 *            the records during the call, and may have the count of one without its part of the
 *            exact sum. Over all resets both are exact.
 * Fallback:  a relaxed fetch_add on buckets that sequences do not write.
 *
 * Concurrent with:   record  read  reset  destroy
 *            record   yes     yes   yes    no
 *            read     yes     yes   yes    no
 *            reset    yes     yes   yes    no     (each record is in one reset, or stays)
 *            exemplar: as read; keep_exemplars: as destroy
 *
 *     struct near_histogram h;
 *     struct near_histogram_snapshot s;
 *
 *     near_histogram_init(&h, NULL);
 *     near_histogram_record(&h, nanoseconds);
 *     near_histogram_read(&h, &s);
 *     printf("p99 %llu\n", (unsigned long long)near_histogram_snapshot_percentile(&s, 99).high);
 *     near_histogram_snapshot_free(&s);
 *
 * Source: Gil Tene, HdrHistogram (2012). Differs in that a bucket is a per-CPU counter and no
 * total is kept beside the buckets: the count is their sum.
 */
#ifndef NEARCPU_HISTOGRAM_H
#define NEARCPU_HISTOGRAM_H

#include <nearcpu/counter.h>
#include <nearcpu/region.h>

NEAR__BEGIN_DECLS

#define NEAR_HISTOGRAM_PRECISION 5u /* the default */
#define NEAR_HISTOGRAM_MAX_PRECISION 10u

/* 0: the default. */
struct near_histogram_options {
	unsigned precision; /* 1 to 10; default 5: an error of at most 1/32 */
	bool exact_sum;     /* each record adds to a sum, too */
	/* Rounded up to the end of its bucket; greater values share one more bucket. Default: the
	 * greatest number. */
	uint64_t max;
	double units;         /* of near_histogram_record_double, that make 1.0; default 1 */
	uint64_t reserved[4]; /* 0 */
};

struct near__exemplar;

/* Private. */
struct near_histogram {
	int64_t *p;     /* percpu: buckets, then the sum; NULL: in a region */
	uint64_t arena; /* of p */
	/* Smaller values take one sequence: on p, or in the region. One of the two is 0; both are,
	 * with an exact sum. */
	uint64_t percpu_end, region_end;
	uint64_t linear; /* 2^precision */
	uint32_t precision;
	uint32_t buckets; /* the one above the maximum included */
	uint64_t max;
	bool exact_sum;
	int64_t *bases; /* what resets took away: as many words; NULL before the first reset */
	struct near_region region;
	double units;
	struct near__exemplar *exemplars; /* NULL: none are kept */
};

/* `options` may be NULL. Returns 0; -EINVAL: precision above the maximum, units that are negative
 * or not finite, or a reserved word that is not 0; -E2BIG: more buckets than an object can have
 * (NEAR_PERCPU_MAX_SIZE): take less precision or a smaller maximum; -ENOMEM. */
NEAR_API int near_histogram_init(struct near_histogram *h,
				 const struct near_histogram_options *options);

/* A histogram that is an object of region `r`, which stays open as long as it is used: finds it by
 * its name and labels, or adds it. `labels` and `options` may be NULL. Returns 0;
 * -EINVAL: an option is wrong; and what near_region_open_object returns. near_region_error has a
 * sentence. */
NEAR_API int near_histogram_open(struct near_histogram *h, const struct near_region *r,
				 const char *name, const char *labels,
				 const struct near_histogram_options *options);

/* A histogram that is object `o` of region `r`, which near_region_object has found.
 * Returns 0; -EINVAL: it is no histogram. */
NEAR_API int near_histogram_open_object(struct near_histogram *h, const struct near_region *r,
					const struct near_region_object *o);

/* Frees it; one in a region lives on. Requires that no operation on it runs. */
NEAR_API void near_histogram_destroy(struct near_histogram *h);

NEAR_API void near__histogram_record_slow(struct near_histogram *h, uint64_t bucket, uint64_t value,
					  uint64_t n);

/* The bucket of a value: values below 2 * linear have one each, those of [2^e, 2^(e+1)) above it
 * share `linear`, which is 2^precision. */
NEAR__INLINE uint64_t near__histogram_bucket(uint64_t value, unsigned precision, uint64_t linear)
{
	unsigned exponent = NEAR__TOP_BIT(value | linear);
	unsigned shift = exponent - precision;

	return shift * linear + (value >> shift);
}

/* p[bucket] += n in the local slot; the store of the sum commits. */
NEAR__INLINE bool near__histogram_try_add(const struct near_histogram *h, uint64_t bucket,
					  uint64_t n)
{
	int64_t *p = h->p + bucket;
	uint64_t at;

	return NEAR_SEQ(
		NEAR_SLOT(at, p)
		NEAR_COMMIT_ADD8(n, at, 0),
		NEAR_OUT(at), NEAR_IN(p, (p_arena, h->arena), n));
}

/* Counts `value` n times. */
NEAR_INLINE void near_histogram_record_n(struct near_histogram *h, uint64_t value, uint64_t n)
{
	uint64_t bucket = near__histogram_bucket(value, h->precision, h->linear);
	bool done;

	NEAR__CHECK_READY(h->linear, h);
	if (__builtin_expect(value < h->percpu_end, 1))
		done = near__histogram_try_add(h, bucket, n);
	else
		done = value < h->region_end &&
		       near__region_try_add(&h->region, h->bases + bucket, (int64_t)n);
	if (__builtin_expect(!done, 0))
		near__histogram_record_slow(h, bucket, value, n);
}

/* A negative number converts to a great one, and counts as such. */
NEAR_INLINE void near_histogram_record(struct near_histogram *h, uint64_t value)
{
	near_histogram_record_n(h, value, 1);
}

/* Counts value * units, rounded to the nearest: seconds with 1e9 units are kept in nanoseconds.
 * Less than 0 counts as 0, infinity and what is too great as the greatest number. False: NaN, which
 * is not counted. */
NEAR_INLINE bool near_histogram_record_double(struct near_histogram *h, double value)
{
	double scaled = value * h->units + .5;

	if (scaled != scaled)
		return false;
	near_histogram_record(h, scaled < 1                       ? 0
				 : scaled < 18446744073709551616. ? (uint64_t)scaled
								  : UINT64_MAX);
	return true;
}

/* For the latencies of a load generator that waits for each answer before its next request: counts
 * `value` and, as the requests that it did not make in that time would have had, value -
 * interval, value - 2 * interval and so on, down to the interval. An interval of 0: `value` alone.
 * Costs an add for each bucket that it reaches. */
NEAR_API void near_histogram_record_corrected(struct near_histogram *h, uint64_t value,
					      uint64_t interval);

/* ---- exemplars ---- */

#define NEAR_HISTOGRAM_TRACE_ID 32u /* bytes */

struct near_histogram_exemplar {
	uint64_t value;
	uint64_t ns; /* since 1970, at most a tick old */
	char trace_id[NEAR_HISTOGRAM_TRACE_ID + 1];
};

/* From now on an exemplar is kept for each power of two, by this process: 4 KiB. Requires that no
 * other operation runs. Returns 0 or -ENOMEM. */
NEAR_API int near_histogram_keep_exemplars(struct near_histogram *h);

/* Counts `value`, and keeps it if the exemplar of its power of two is a second old: 8.5 ns; 5.4 if
 * none are kept (AMD Turin). A trace id has 1 to 32 printable ASCII characters without blanks,
 * quotes and backslashes; with another one, or NULL, the value is counted alone. */
NEAR_API void near_histogram_record_exemplar(struct near_histogram *h, uint64_t value,
					     const char *trace_id);

/* The exemplar of the greatest power of two that has one from `low` to `high`. False: there is
 * none, or it is being written. near_metrics_write has those of each bucket in OpenMetrics. */
NEAR_API bool near_histogram_exemplar(const struct near_histogram *h, uint64_t low, uint64_t high,
				      struct near_histogram_exemplar *out);

/* ---- reading ---- */

struct near_histogram_snapshot {
	uint64_t count; /* the sum of `counts`, modulo 2^64 */
	uint64_t max;   /* if it is below 2^64 - 1, the last bucket has what exceeds it */
	/* The sum of the values is at most `sum_error` away from `sum`, besides the rounding of a
	 * double. It is derived from the buckets, unless has_exact_sum: then it is exact_sum, to
	 * which each record added its value modulo 2^64. */
	double sum, sum_error;
	uint64_t exact_sum;
	bool has_exact_sum;
	uint32_t precision, buckets;
	uint64_t *counts; /* of each bucket */
};

/* The values of a bucket. */
struct near_histogram_range {
	uint64_t low, high;
};

/* What was recorded since the last reset. Returns 0 or -ENOMEM. */
NEAR_API int near_histogram_read(const struct near_histogram *h, struct near_histogram_snapshot *s);

/* The same, and counts from 0 again: each record is in the result of exactly one reset or in what
 * stays. Without memory nothing is reset. */
NEAR_API int near_histogram_reset(struct near_histogram *h, struct near_histogram_snapshot *s);

/* As near_histogram_snapshot_percentile of a read, without memory for a snapshot: 3.4 us with the
 * default options where that takes 9.6 (AMD Milan), and 8 KiB of stack. While a reset runs, of some
 * of the values. Any thread, signal handlers. */
NEAR_API struct near_histogram_range near_histogram_percentile(const struct near_histogram *h,
							       double percent);

NEAR_API void near_histogram_snapshot_free(struct near_histogram_snapshot *s);

/* Adds the counts of `from` to `to`. Returns 0; -EINVAL, and nothing is added: `from` has less
 * precision, or it has a lower maximum and counted values above that. */
NEAR_API int near_histogram_snapshot_merge(struct near_histogram_snapshot *to,
					   const struct near_histogram_snapshot *from);

/* The bucket of the value at the percentile (0 to 100): of all values in their order, that of
 * number ceil(percent / 100 * count), the first being 1 and the least that is returned. So at least
 * that percentage of the values is at most its `high`, and the value itself is low to high. Of an
 * empty snapshot: 0, 0. */
NEAR_API struct near_histogram_range
near_histogram_snapshot_percentile(const struct near_histogram_snapshot *s, double percent);

/* Parts of all values, 0 to 1. */
struct near_histogram_share {
	double least, most;
};

/* The share of the values that are at most `value`: within least to most, which are equal if
 * `value` is the `high` of a bucket. Of an empty snapshot: 1, 1. */
NEAR_API struct near_histogram_share
near_histogram_snapshot_share(const struct near_histogram_snapshot *s, uint64_t value);

/* The buckets of the least and of the greatest value; of an empty snapshot: 0, 0. */
NEAR_API struct near_histogram_range
near_histogram_snapshot_min(const struct near_histogram_snapshot *s);
NEAR_API struct near_histogram_range
near_histogram_snapshot_max(const struct near_histogram_snapshot *s);

/* The values of bucket `i`, which is below s->buckets. */
NEAR_API struct near_histogram_range
near_histogram_snapshot_bucket(const struct near_histogram_snapshot *s, unsigned i);

/* Write up to `size` bytes, the terminating 0 included, and return what snprintf would. The text is
 * a line of count, mean, percentiles and maximum; the JSON an object that has the buckets that are
 * not empty, too. */
NEAR_API int near_histogram_snapshot_text(const struct near_histogram_snapshot *s, char *out,
					  size_t size);
NEAR_API int near_histogram_snapshot_json(const struct near_histogram_snapshot *s, char *out,
					  size_t size);

NEAR__END_DECLS

#endif
