/* SPDX-License-Identifier: MIT */
/* The same program in C++, with operator new. */
#include "malloc.c"

#include <new>

struct big {
	char bytes[1 << 16];
};

static struct grows {
	struct near_malloc_stats before = {}, after = {};
	big *block;

	grows()
	{
		near_malloc_stats(&before, sizeof(before));
		block = new big();
		near_malloc_stats(&after, sizeof(after));
		if (after.in_use < before.in_use + sizeof(*block))
			std::abort();
		delete block;
	}
} checked;
