/* SPDX-License-Identifier: MIT */
/* What the files of near_histogram share. */
#ifndef NEARCPU_HISTOGRAM_INTERNAL_H
#define NEARCPU_HISTOGRAM_INTERNAL_H

#include <nearcpu/histogram.h>

/* Of the value at a percentile, among `count`: 1 to count, or 0 for the least value. */
uint64_t near__histogram_rank(uint64_t count, double percent);

#endif
