/* SPDX-License-Identifier: MIT */
/* age: memory that is not used is given back, in steps a quarter of a second apart, by whoever
 * comes to a slow path. Nothing here sends an interrupt: a thread looks after its own slot, and
 * after what no slot has. */
#include "malloc/cache/background.h"
#include "malloc/base/conf.h"
#include "malloc/cache/cache.h"

#define STEP_MS 250
#define MOST ((size_t)32 << 20) /* that one call gives back */

static uint64_t due;

void near__age(void)
{
	uint64_t now = near__os_ms(), seen = __atomic_load_n(&due, __ATOMIC_RELAXED);

	near__stash_age(now);
	/* One thread wins each step; nothing else is ordered by it. */
	if (NEAR__LIKELY(now < seen) ||
	    !__atomic_compare_exchange_n(&due, &seen, now + STEP_MS, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	near__central_age();
	near__pages_purge(near__malloc_conf.age_ms, MOST);
	near__background_start();
}
