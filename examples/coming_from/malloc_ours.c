/* SPDX-License-Identifier: MIT */
/* What the heap has, and a return of what is free. malloc_theirs.c does the same with jemalloc. */
#include <malloc.h>
#include <nearcpu/malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 1000

/* [heap] */
static struct near_malloc_stats heap_now(void)
{
	struct near_malloc_stats now;

	near_malloc_stats(&now, sizeof(now));
	return now;
}

static void heap_trim(void)
{
	malloc_trim(0); /* all slots' caches, too */
}
/* [/heap] */

int main(void)
{
	static void *blocks[BLOCKS];
	struct near_malloc_stats before = heap_now(), with;

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = calloc(1, 10000);
		if (!blocks[i])
			return 1;
	}
	with = heap_now();
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	heap_trim();
	printf("%zu MB in use, %s after the trim\n",
	       (size_t)(with.in_use - before.in_use) / 1000000,
	       heap_now().resident < with.resident - 8000000 ? "given back" : "kept");
	return 0;
}
