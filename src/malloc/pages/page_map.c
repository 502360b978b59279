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

/* A block that has grown is marked in pieces: cut in the middle of a long one, what is left of its
 * tags' gap would be taken for a free run (resident.c). */
void near__page_map_cut(uint32_t first, uint32_t stays)
{
	uint8_t *end = near__heap.page_map + first + stays - NEAR__MARKED;
	uint32_t gap = 0;

	near__page_map_mark(first, stays);
	if (stays < NEAR__LONG)
		return;
	while (gap < NEAR__MIDDLE && !end[-1 - (int32_t)gap])
		gap++;
	if (gap < NEAR__MIDDLE)
		memset(end - gap, NEAR__REST, gap);
}

void near__page_map_unmark_long(uint32_t first, uint32_t count)
{
	uint8_t *tags = near__heap.page_map + first;

	if (count < CLEARED)
		memset(tags, 0, count);
	else
		near__os_discard(tags, count);
}
