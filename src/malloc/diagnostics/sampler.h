/* SPDX-License-Identifier: MIT */
/* sampler: selects the allocations of the heap profile. Each byte that a thread allocates is
 * selected with the same small probability, independently of all others, and the allocation that
 * contains the byte is the sample. An allocation of n bytes is sampled with the probability 1 -
 * exp(-n / rate), whatever precedes it. pprof divides by this probability. */
#ifndef NEARCPU_MALLOC_SAMPLER_H
#define NEARCPU_MALLOC_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "malloc/base/heap.h"

/* One for each thread; all zero is a sampler that takes a random seed at its first use. */
struct near__sampler {
	int64_t left;  /* the number of the next selected byte, counted from 1; 0: not seeded */
	uint64_t seed; /* the state of the random numbers */
};

/* For tests, which must be repeatable. */
void near__sampler_seed(struct near__sampler *s, uint64_t rate, uint64_t seed);

/* An allocation of n bytes contains a selected byte, or the sampler is not seeded. True: the caller
 * samples it. */
bool near__sampler_reached(struct near__sampler *s, uint64_t rate, size_t n);

/* Counts an allocation of at most PTRDIFF_MAX bytes. True: the caller samples it. */
static inline bool near__sampler_take(struct near__sampler *s, uint64_t rate, size_t n)
{
	if (NEAR__LIKELY(s->left > (int64_t)n)) {
		s->left -= (int64_t)n;
		return false;
	}
	return near__sampler_reached(s, rate, n);
}

#endif
