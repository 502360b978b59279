/* SPDX-License-Identifier: MIT */
/* Decay: gives unused memory back, in steps a quarter of a second apart, by the threads that take
 * a slow path. It sends no interrupt: a thread empties its own slot, and what belongs to no
 * slot. */
#include "malloc/base/malloc_conf.h"
#include "malloc/cache/background.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"
#include "malloc/pages/pages.h"

#define STEP_MS 250
#define MOST ((size_t)32 << 20) /* bytes that one call gives back */
#define MOST_AREAS 256          /* of 2 MiB that one call examines */

static uint64_t due;

void near__decay(void)
{
	uint64_t now = near__os_ms(), seen = __atomic_load_n(&due, __ATOMIC_RELAXED);

	near__transfer_decay(now);
	near__pages_limit(now);
	near__background_wake();
	near__step();
	/* One thread wins each step; nothing else is ordered by it. */
	if (NEAR__LIKELY(now < seen) ||
	    !__atomic_compare_exchange_n(&due, &seen, now + STEP_MS, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	near__shards_decay(now);
	near__central_decay(false);
	near__pages_purge(near__malloc_conf.decay_ms, MOST);
	if (near__os_huge_pages_come())
		near__pages_purge_areas(MOST_AREAS);
}

void near__reclaim(void)
{
	near__drain_all();
	near__thread_cache_empty();
	near__shards_empty();
	near__central_decay(true);
}
