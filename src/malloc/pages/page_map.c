/* SPDX-License-Identifier: MIT */
/* Tags of long runs. Neighbours load the ends of a run to check whether it is free. Only these are
 * marked, so that a large block that is not used takes hardly any memory. The tags in between are
 * 0, as if free, and free refuses a pointer to there in any case. */
#include "malloc/pages/pages.h"

/* The map's own pages of longer runs are returned to the system. */
#define CLEARED (16 * NEAR__PAGE)

void near__page_map_mark_long(uint32_t first, uint32_t count)
{
	uint8_t *tags = near__heap.page_map + first;

	if (near__heap.hooks == NEAR__CHECKED) { /* check.c searches for the first page */
		memset(tags, NEAR__REST, count);
		return;
	}
	memset(tags, NEAR__REST, NEAR__MARKED);
	memset(tags + count - NEAR__MARKED, NEAR__REST, NEAR__MARKED);
}

void near__page_map_unmark_long(uint32_t first, uint32_t count)
{
	uint8_t *tags = near__heap.page_map + first;

	if (count < CLEARED)
		memset(tags, 0, count);
	else
		near__os_discard(tags, count);
}
