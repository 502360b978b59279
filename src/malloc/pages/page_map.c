/* SPDX-License-Identifier: MIT */
/* Kinds of long runs. To know whether a run is free, its neighbours load its ends. So these
 * alone are marked: a large block that is not used takes hardly any memory. In between the tag is
 * 0, as if free, and a pointer to there is still refused. */
#include "malloc/pages/pages.h"

#define MARKED 64u
/* Of runs from here on whole pages of the table are given back. */
#define CLEARED (16 * NEAR__PAGE)

void near__page_map_mark_long(uint32_t first, uint32_t count)
{
	uint8_t *tag = near__heap.page_map + first;

	if (near__heap.hooks == NEAR__CHECKED) { /* which names the block */
		memset(tag, NEAR__REST, count);
		return;
	}
	memset(tag, NEAR__REST, MARKED);
	memset(tag + count - MARKED, NEAR__REST, MARKED);
}

void near__page_map_unmark_long(uint32_t first, uint32_t count)
{
	char *from = (char *)near__heap.page_map + first, *to = from + count;
	char *page = (char *)(((uintptr_t)from + NEAR__PAGE - 1) & ~(NEAR__PAGE - 1));
	size_t whole = (size_t)(to - page) & ~(NEAR__PAGE - 1);

	if (count < CLEARED) {
		memset(from, 0, count);
		return;
	}
	memset(from, 0, (size_t)(page - from));
	near__os_discard(page, whole);
	memset(page + whole, 0, (size_t)(to - page) - whole);
}
