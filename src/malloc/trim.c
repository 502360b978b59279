/* SPDX-License-Identifier: MIT */
#include <malloc.h>

#include "fast.h"

/* Sends interrupts: all slots are emptied. */
void near__reclaim(void)
{
	near__drain_all();
	near__central_trim();
}

NEAR__ENTRY int malloc_trim(size_t pad)
{
	(void)pad;
	if (!near__heap.ready)
		return 0;
	near__reclaim();
	return near__pages_purge(0, SIZE_MAX) > 0;
}
