/* SPDX-License-Identifier: MIT */
#include <malloc.h>

#include "malloc/api/fast.h"

/* Sends interrupts: all slots are emptied. */
void near__reclaim(void)
{
	near__drain_all();
	near__central_trim();
}

NEAR__ENTRY int malloc_trim(size_t pad)
{
	size_t discarded;

	(void)pad;
	if (!__atomic_load_n(&near__heap.ready, __ATOMIC_ACQUIRE)) /* as near__heap_ready */
		return 0;
	near__reclaim();
	discarded = near__central_discard();
	return near__pages_purge(0, SIZE_MAX) + discarded > 0;
}
