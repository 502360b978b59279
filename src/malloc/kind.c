/* SPDX-License-Identifier: MIT */
/* Kinds of whole runs. Neighbours look at the ends of a run, to see whether it is free. */
#include <string.h>

#include "heap.h"

/* Runs from here on are marked at their ends alone, so that a large block that is not used takes
 * hardly any memory. In between the kind is 0, as if free: a pointer to there is still refused. */
#define LONG 4096u
#define MARKED 1024u
/* Of runs from here on whole pages of the table are given back. */
#define CLEARED (16 * NEAR__OS_PAGE)

void near__kind_mark(uint32_t first, uint32_t count)
{
	uint8_t *kind = near__heap.kind + first;
	bool all = count < LONG || near__heap.hooks == NEAR__CHECKED; /* which names the block */

	memset(kind, NEAR__REST, all ? count : MARKED);
	if (!all)
		memset(kind + count - MARKED, NEAR__REST, MARKED);
}

void near__kind_unmark(uint32_t first, uint32_t count)
{
	char *from = (char *)near__heap.kind + first, *to = from + count;
	char *page = (char *)(((uintptr_t)from + NEAR__OS_PAGE - 1) & ~(NEAR__OS_PAGE - 1));
	size_t whole = (size_t)(to - page) & ~(NEAR__OS_PAGE - 1);

	if (count < CLEARED) {
		memset(from, 0, count);
		return;
	}
	memset(from, 0, (size_t)(page - from));
	near__os_discard(page, whole);
	memset(page + whole, 0, (size_t)(to - page) - whole);
}
