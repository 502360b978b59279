/* SPDX-License-Identifier: MIT */
#include <malloc.h>

#include "fast.h"

/* Sends interrupts: all slots are emptied. */
NEAR__ENTRY int malloc_trim(size_t pad)
{
	(void)pad;
	if (!near__heap.ready)
		return 0;
	near__drain_all();
	near__central_trim();
	return near__pages_purge(0, SIZE_MAX) > 0;
}
