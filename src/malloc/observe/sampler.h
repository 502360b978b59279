/* SPDX-License-Identifier: MIT */
/* sampler: decides which allocations the heap profile samples. Each byte that a thread asks for is
 * chosen with the same small chance, independently of all others, and the allocation that contains
 * a chosen byte is the sample. So an allocation of n bytes is sampled with the chance
 * 1 - exp(-n / rate), whatever came before it, which is the chance that pprof divides by. */
#ifndef NEARCPU_MALLOC_SAMPLER_H
#define NEARCPU_MALLOC_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "malloc/base/heap.h"

/* One for each thread; all zero is a sampler that takes a random seed at its first use. */
struct near__sampler {
	int64_t left;  /* the number of the next chosen byte, counted from 1; 0: not seeded */
	uint64_t seed; /* the state of the random numbers */
};

/* For tests, which repeat what they found. */
void near__sampler_seed(struct near__sampler *s, uint64_t rate, uint64_t seed);

/* An allocation of n bytes contains a chosen byte, or the sampler is not seeded. True: it is to be
 * sampled. */
bool near__sampler_reached(struct near__sampler *s, uint64_t rate, size_t n);

/* Counts an allocation of at most PTRDIFF_MAX bytes. True: it is to be sampled. */
static inline bool near__sampler_take(struct near__sampler *s, uint64_t rate, size_t n)
{
	if (NEAR__LIKELY(s->left > (int64_t)n)) {
		s->left -= (int64_t)n;
		return false;
	}
	return near__sampler_reached(s, rate, n);
}

#endif
