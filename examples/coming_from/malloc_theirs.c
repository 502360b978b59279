/* SPDX-License-Identifier: MIT */
/* What the heap has, and a return of what is free, with jemalloc: malloc_ours.c does the same with
 * near_malloc. */
#include <jemalloc/jemalloc.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
#define BLOCKS 1000

struct heap {
	size_t in_use, resident;
};

/* [heap] */
static struct heap heap_now(void)
{
	struct heap now = {0, 0};
	uint64_t epoch = 1;
	size_t size = sizeof(epoch);

	mallctl("epoch", &epoch, &size, &epoch, size); /* statistics are of the last epoch */
	size = sizeof(size_t);
	mallctl("stats.allocated", &now.in_use, &size, NULL, 0);
	mallctl("stats.resident", &now.resident, &size, NULL, 0);
	return now;
}

static void heap_trim(void)
{
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	mallctl("arena." STRING(MALLCTL_ARENAS_ALL) ".purge", NULL, NULL, NULL, 0);
}
/* [/heap] */

int main(void)
{
	static void *blocks[BLOCKS];
	struct heap before = heap_now(), with;

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = calloc(1, 10000);
		if (!blocks[i])
			return 1;
	}
	with = heap_now();
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	heap_trim();
	printf("%zu MB in use, %s after the trim\n", (with.in_use - before.in_use) / 1000000,
	       heap_now().resident < with.resident - 8000000 ? "given back" : "kept");
	return 0;
}
