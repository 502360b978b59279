/* SPDX-License-Identifier: MIT */
/* node: the pages of a NUMA node. */
#ifndef NEARCPU_MALLOC_NODE_H
#define NEARCPU_MALLOC_NODE_H

#include "malloc/pages/dirty.h"
#include "malloc/pages/pages.h"
#include "malloc/pages/space.h"

struct near__pages {
	struct near_lock lock;
	struct near__runs runs;
	struct near__dirty_list dirty;
	uint32_t spare; /* descriptors that are not in use, by `left` */
	uint32_t used;  /* pages of all extents, without holes */
	struct near__extent *newest, *unclaimed;
	struct near__extent first;
	uint64_t taken; /* pages that were clean when they were allocated, so far */
	/* `free` and `dirty` of these are read without the lock; so is `taken`. */
	struct near__pages_stats stats;
} __attribute__((aligned(NEAR__CACHE_LINE)));
extern struct near__pages near__pages[NEAR__MAX_NODES] __attribute__((visibility("hidden")));

/* The caller holds the lock: one thread writes. Relaxed: a reader without it needs an estimate. */
static inline void near__pages_add(uint64_t *sum, int64_t n)
{
	__atomic_store_n(sum, *sum + (uint64_t)n, __ATOMIC_RELAXED);
}

/* pages.c. The caller of the next four functions holds the lock of the node's pages.
 *
 * Makes a free run. Requires that the tags are 0. A run is dirty if one of its pages may be, since
 * `freed`. */
void near__pages_insert(struct near__pages *p, uint32_t first, uint32_t count, bool dirty,
			uint32_t freed);
/* Its pages are in no run from then on. */
void near__pages_remove(struct near__pages *p, uint32_t number);
/* Makes pages that are in no run pages in use. Returns how many of them may have been written. */
uint32_t near__pages_take(struct near__pages *p, uint32_t first, uint32_t count);
/* Frees pages in use, and merges them with free neighbours. */
void near__pages_free_locked(struct near__pages *p, uint32_t first, uint32_t count, bool dirty);

#endif
