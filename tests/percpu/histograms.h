/* SPDX-License-Identifier: MIT */
/* Histograms and snapshots whose making is asserted. */
#ifndef NEARCPU_TESTS_HISTOGRAMS_H
#define NEARCPU_TESTS_HISTOGRAMS_H

#include <nearcpu/histogram.h>

#include "unit.h"

static inline struct near_histogram made(struct near_histogram_options o)
{
	struct near_histogram h;

	memset(&h, 0x5a, sizeof(h));
	assert_int_equal(near_histogram_init(&h, &o), 0);
	return h;
}

static inline struct near_histogram_snapshot taken(const struct near_histogram *h)
{
	struct near_histogram_snapshot s;

	assert_int_equal(near_histogram_read(h, &s), 0);
	return s;
}

/* Of 64 bits. */
static inline uint64_t any_number(uint64_t *seed)
{
	uint64_t high = unit_random(seed);

	return high << 32 | unit_random(seed);
}

#endif
