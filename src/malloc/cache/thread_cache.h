/* SPDX-License-Identifier: MIT */
/* thread_cache: the lists of a thread that has no slot, and what nearly every call does with them.
 * Only the thread itself changes them; thread_cache.c has the slow paths. */
#ifndef NEARCPU_MALLOC_THREAD_CACHE_H
#define NEARCPU_MALLOC_THREAD_CACHE_H

#include "malloc/base/lookup.h"

/* The low two bytes of `count` are the room, how many more blocks the list may get; the others
 * count the blocks that were taken. A list that was never filled has no room. */
struct near__local_list {
	uint64_t list;
	union {
		uint64_t count;
		uint16_t room;
	};
};
#define NEAR__LOCAL_SHIFT 16
#define NEAR__LOCAL_TAKEN ((uint64_t)1 << NEAR__LOCAL_SHIFT)

struct near__local {
	struct near__local_list lists[NEAR__SIZES + 1];
	/* The sum of what each store of the room took off it: room + deltas is how many more blocks
	 * were taken than put. */
	int64_t deltas[NEAR__SIZES + 1];
	uint64_t missed[NEAR__SIZES + 1]; /* blocks that were taken from another level */
	uint8_t limits[NEAR__SIZES + 1];  /* blocks in a list, at most; doubles from 0 on */
	uint32_t number, next;
	uint32_t chain; /* the next of all */
};

/* NULL: this thread has none, or shares some. */
extern __thread struct near__local *near__local
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Relaxed: only near_malloc_stats reads it in other threads. */
static inline void near__local_count(struct near__local_list *e, uint64_t change)
{
	__atomic_store_n(&e->count, e->count + change, __ATOMIC_RELAXED);
}

static inline void *near__local_take(struct near__local_list *e)
{
	near__local_count(e, NEAR__LOCAL_TAKEN + 1);
	return near__list_take(&e->list);
}

static inline void near__local_put(struct near__local_list *e, uint64_t block)
{
	near__local_count(e, (uint64_t)-1);
	near__list_push(&e->list, block);
}

/* NULL: the thread's list of the class has no block. */
static inline void *near__thread_cache_take(unsigned class)
{
	struct near__local *l = near__local;

	if (NEAR__UNLIKELY(!l) || NEAR__UNLIKELY(near__list_is_empty(l->lists[class].list)))
		return NULL;
	return near__local_take(&l->lists[class]);
}

/* False: there is no room, or the block is the first one already. */
static inline bool near__thread_cache_put(unsigned class, uint64_t block)
{
	struct near__local *l = near__local;

	if (NEAR__UNLIKELY(!l) || NEAR__UNLIKELY(!l->lists[class].room) ||
	    NEAR__UNLIKELY(l->lists[class].list == block))
		return false;
	near__local_put(&l->lists[class], block);
	return true;
}

#endif
