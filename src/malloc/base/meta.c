/* SPDX-License-Identifier: MIT */
/* Descriptors, one below the other. Their users keep unused ones for later. A number is the
 * distance from a descriptor to the base, which is the end of the range; none is 0. */
#include "malloc/base/heap.h"

static struct near_lock lock;
static size_t used;

/* The last third is for runs of free pages. Between two spans there is one run at most, and its
 * descriptor is half as large as those of the two: when spans get no more descriptors, their pages
 * can still be freed in any order. */
static uint32_t alloc_below(size_t limit, size_t size)
{
	uint32_t number = 0;

	size = (size + NEAR__META_UNIT - 1) & ~(NEAR__META_UNIT - 1);
	near__heap_lock(&lock);
	if (used + size <= limit && near__range_commit(&near__heap.meta, used + size)) {
		used += size;
		number = (uint32_t)(used / NEAR__META_UNIT);
	}
	near_lock_unlock(&lock);
	return number;
}

uint32_t near__meta_alloc(size_t size)
{
	return alloc_below(near__heap.meta.size / 3 * 2, size);
}

uint32_t near__meta_alloc_run(size_t size)
{
	return alloc_below(near__heap.meta.size, size);
}

bool near__meta_keep(size_t size)
{
	bool kept;

	size = size < near__heap.meta.size ? size : near__heap.meta.size;
	near__heap_lock(&lock);
	kept = near__range_commit(&near__heap.meta, size);
	near_lock_unlock(&lock);
	return kept;
}

size_t near__meta_used(void)
{
	size_t bytes;

	near__heap_lock(&lock);
	bytes = used;
	near_lock_unlock(&lock);
	return bytes;
}

void near__meta_fork(near__fork_step *step)
{
	step(&lock);
}
