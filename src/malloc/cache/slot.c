/* SPDX-License-Identifier: MIT */
/* The slot that a thread is on: its cache, opened when it is first used, and its counts. */
#include <nearcpu/counter.h>

#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"

struct near__tally near__overflow[NEAR__SIZES + 1];

void near__tally(int64_t *own, int64_t *overflow)
{
	NEAR__TRY_WHILE(true)
		if (NEAR__LIKELY(near__counter_try_add(own, 1)))
			return;
	__atomic_fetch_add(overflow, 1, __ATOMIC_RELAXED); /* a sum: nothing is ordered by it */
}

struct near__cache *near__cache_now(void)
{
	uint32_t slot = near__index_now();
	struct near__cache *cache;

	if (slot >= near__process.slots)
		return NULL;
	cache = near_percpu_at(near__heap.caches, slot);
	/* The memory of a slot that is not in use yet must not be written. */
	return __atomic_load_n(&cache->due, __ATOMIC_RELAXED) ? cache : NULL;
}

static void slot_begin(struct near__cache *own, unsigned class)
{
	uint64_t never = 0;

	__atomic_compare_exchange_n(&own->due, &never, 1, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	near__bin_begin(&own->entries[class], &own->transfers[class],
			(uint8_t)near__central_batch(class));
}

bool near__cache_open(unsigned class)
{
	uint32_t slot = near__slot_open(near__heap.caches);
	struct near__cache *own;
	uint64_t list;

	if (slot == NEAR__NO_SLOT)
		return false;
	own = near_percpu_at(near__heap.caches, slot);
	list = __atomic_load_n(&own->entries[class].list, __ATOMIC_RELAXED); /* a hint */
	if (list == NEAR__UNUSED_LIST)
		slot_begin(own, class);
	return list != NEAR__CLOSED_LIST;
}

bool near__cache_next(unsigned *slot)
{
	return near__heap.caches && near_percpu_next(near__heap.caches, slot) &&
	       *slot < near__process.slots;
}

void near__cache_init(void)
{
	void *p;

	if (near__process.usable && near__percpu_alloc_whole(&p, sizeof(struct near__cache)) == 0)
		near__heap.caches = p;
}
