/* SPDX-License-Identifier: MIT */
/* What the files of near_histogram share. */
#ifndef NEARCPU_HISTOGRAM_INTERNAL_H
#define NEARCPU_HISTOGRAM_INTERNAL_H

#include <nearcpu/histogram.h>

/* Of the value at a percentile, among `count`: 1 to count, or 0 for the least value. */
uint64_t near__histogram_rank(uint64_t count, double percent);

#define NEAR__HISTOGRAM_PART 64 /* buckets that are read together */
struct near__histogram_part {
	uint64_t counts[NEAR__HISTOGRAM_PART], bases[NEAR__HISTOGRAM_PART];
	unsigned size;
};

/* Reads the buckets from `first` on, without memory. Returns how many values they have. */
uint64_t near__histogram_read_part(const struct near_histogram *h, unsigned first,
				   struct near__histogram_part *p);
uint64_t near__histogram_exact_sum(const struct near_histogram *h);

/* As near_histogram_snapshot_bucket. */
struct near_histogram_range near__histogram_range_of(const struct near_histogram *h, unsigned i);

/* What the values of a bucket are in a sum. One without an upper bound counts with its least. */
static inline double near__histogram_middle(struct near_histogram_range r, uint64_t max)
{
	return (double)r.low + (r.low > max ? 0 : (double)(r.high - r.low) / 2);
}

#endif
