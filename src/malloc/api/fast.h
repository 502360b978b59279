/* SPDX-License-Identifier: MIT */
/* fast: the paths that nearly every call takes, for the entry points to inline. */
#ifndef NEARCPU_MALLOC_FAST_H
#define NEARCPU_MALLOC_FAST_H

#include "malloc/cache/cache.h"
#include "malloc/central/spans.h"

/* An entry point: of the drop-in, hence visible. */
#define NEAR__ENTRY __attribute__((visibility("default")))
/* Where the program goes on behind the call of the entry point; also in a function that is the last
 * thing which the entry point calls. */
#define NEAR__CALLER __builtin_return_address(0)

/* lookup.c: where the entry of the class of (n + 7) / 8 stands. */
extern uint16_t near__entry_offsets[NEAR__TABLE_MAX / 8 + 1] __attribute__((visibility("hidden")));

/* entry.c: what the fast paths could not do. They set errno. */
void *near__alloc_slow(size_t n, const void *caller);
void near__free_slow(void *p);
void *near__no_memory(void);

static inline struct near__entry *near__entry_for(size_t n)
{
	return (struct near__entry *)((char *)near__heap.front + near__entry_offsets[(n + 7) >> 3]);
}

/* The class that blocks of n bytes come from now. */
static inline unsigned near__class_of(size_t n)
{
	return n <= NEAR__TABLE_MAX ? near__entry_offsets[(n + 7) >> 3] / sizeof(struct near__entry)
				    : near__class_compute(n);
}

/* False: go the slow way. */
static inline bool near__alloc_fast(size_t n, void **p)
{
	return NEAR__LIKELY(n < near__heap.cid_limit) &&
	       NEAR__LIKELY(near__pop_by_cid(near__entry_for(n), p));
}

static inline void *near__alloc(size_t n, const void *caller)
{
	void *p;

	return near__alloc_fast(n, &p) ? p : near__alloc_slow(n, caller);
}

/* False: go the slow way. */
static inline bool near__free_fast(void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned kind, class;

	if (NEAR__UNLIKELY(offset >= near__heap.cid_size))
		return false;
	kind = near__heap.kind[offset >> NEAR__GRANULE_SHIFT];
	return NEAR__LIKELY(near__begins(kind, offset, &class)) &&
	       NEAR__LIKELY(near__push_by_cid(near__entry_of(class), p, offset));
}

static inline void near__free(void *p)
{
	if (!near__free_fast(p))
		near__free_slow(p);
}

#endif
