/* SPDX-License-Identifier: MIT */
/* Descriptors, one below the other. Their users keep unused ones for later. A number is the
 * distance from a descriptor to the base, which is the end of the range; none is 0. */
#include "base/bits.h"
#include "malloc/base/heap.h"

static struct near_lock lock;
static size_t used, holes; /* bytes, in front of `used` both */
static size_t refused;     /* an end that cannot be committed; 0: none is known */

/* Also at another place, if the heap could not begin at one. */
void near__meta_begin(char *base, size_t size)
{
	near__heap.meta = (struct near__range){base, size, 0, 0, -1, true};
	used = holes = refused = 0;
}

/* Makes the next `size` bytes usable. `used` passes over what other code has mapped, in steps that
 * double: few calls pass over a large mapping, and skip at most as much again. */
static bool commit_next(size_t size, size_t limit)
{
	struct near__range *m = &near__heap.meta;

	for (size_t step = near__page_size(); used + size <= limit; step *= 2) {
		enum near__commit result = near__range_commit(m, used + size);

		if (result != NEAR__OCCUPIED)
			return result == NEAR__USABLE;
		step = m->committed + step + size <= limit ? step : near__page_size();
		holes += step;
		used = m->piece = m->committed += step;
		refused = 0;
	}
	return false;
}

/* The last third is for runs of free pages. Between two spans there is one run at most, and its
 * descriptor is half as large as those of the two: when spans get no more descriptors, their pages
 * can still be freed in any order. */
static uint32_t alloc_below(size_t limit, size_t size)
{
	uint32_t number = 0;

	size = near__round_up(size, NEAR__META_UNIT);
	near__heap_lock(&lock);
	if (commit_next(size, limit)) {
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

/* In front of another mapping, what is left there is enough: the next descriptors pass over it. */
bool near__meta_keep(size_t size)
{
	struct near__range *m = &near__heap.meta;
	enum near__commit result = NEAR__USABLE;

	near__heap_lock(&lock);
	size = size < m->size - holes ? size + holes : m->size;
	if (!refused || size < refused)
		result = near__range_commit(m, size);
	if (result == NEAR__OCCUPIED) {
		near__range_fill(m, size);
		refused = size;
	}
	near_lock_unlock(&lock);
	return result != NEAR__NO_MEMORY;
}

size_t near__meta_used(void)
{
	size_t bytes;

	near__heap_lock(&lock);
	bytes = used - holes;
	near_lock_unlock(&lock);
	return bytes;
}

size_t near__meta_committed(void)
{
	size_t bytes;

	near__heap_lock(&lock);
	bytes = near__heap.meta.committed - holes;
	near_lock_unlock(&lock);
	return bytes;
}

void near__meta_fork(near__fork_step *step)
{
	step(&lock);
}
