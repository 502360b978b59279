/* SPDX-License-Identifier: MIT */
/* Large blocks: whole pages, whose number is in `owner` of the first. */
#include <string.h>

#include "base/probe.h"
#include "malloc/pages/marks.h"
#include "malloc/pages/node.h"

struct near__large_stats near__large_stats;

/* Moving at least this many pages costs less than copying their content. */
#define MOVE_PAGES 128u
#define MOST_MOVED 16384u
/* A block of at least this many new pages replaces free ones that were written. */
#define REPLACED 256u
/* The memory in front of an aligned block is committed, too. */
#define LARGEST_ALIGN ((size_t)1 << 36)

/* Relaxed: statistics. */
static void large_count(uint64_t *sum, int64_t n)
{
	__atomic_fetch_add(sum, (uint64_t)n, __ATOMIC_RELAXED);
}

/* 0: more than the heap has. */
static uint32_t pages_for(size_t size)
{
	size_t pages = (size >> NEAR__PAGE_SHIFT) + (size % NEAR__PAGE != 0);

	return pages > near__heap.size >> NEAR__PAGE_SHIFT ? 0 : (uint32_t)pages;
}

static void *large_make(uint32_t first, uint32_t pages)
{
	near__heap.owner[first] = pages;
	if (pages > 1) /* also the new end of a block that was cut */
		near__set_tag(first + pages - 1, NEAR__REST);
	near__set_tag(first, NEAR__LARGE);
	return near__page_at(first);
}

void *near__large_alloc(size_t size, size_t align, bool *zero)
{
	uint32_t pages = pages_for(size), step = pages_for(align), first;

	if (!pages || !step)
		return NULL;
	/* So that it can be moved. */
	if (pages >= MOVE_PAGES && step < near__system_page())
		step = near__system_page();
	/* Refused even if the heap has such an address: the result must not depend on chance. */
	if (align > LARGEST_ALIGN || (size_t)pages + step > near__heap.size >> NEAR__PAGE_SHIFT)
		return NULL;
	first = near__pages_alloc(near__node_now(), pages, step, zero);
	if (first == NEAR__NONE)
		return NULL;
	if (*zero && pages >= REPLACED)
		near__pages_replace(pages);
	large_count(&near__large_stats.taken, 1);
	large_count(&near__large_stats.pages, pages);
	return large_make(first, pages);
}

/* The first page of a block. */
static uint32_t first_of(uint64_t block)
{
	if (block % NEAR__PAGE)
		near__heap_die("a pointer into a block", block);
	return (uint32_t)(block >> NEAR__PAGE_SHIFT);
}

size_t near__large_size(uint64_t block)
{
	return (size_t)near__heap.owner[first_of(block)] << NEAR__PAGE_SHIFT;
}

void near__large_free(uint64_t block)
{
	uint32_t first = first_of(block), pages = near__heap.owner[first];

	near__probe(NEAR__PROBE_FREE, near__list_block(block), (size_t)pages << NEAR__PAGE_SHIFT);
	large_count(&near__large_stats.freed, 1);
	large_count(&near__large_stats.pages, -(int64_t)pages);
	near__pages_free(first, pages, true);
}

/* Each move may add a mapping; a process can have 65,530. */
static bool is_worth_moving(uint32_t pages)
{
	return pages >= MOVE_PAGES && pages >= near__pages_used() / MOST_MOVED;
}

/* Of a run in use, frees what is behind the first `stays` pages. With the lock: without tags in its
 * middle, what stays would appear free. The first tag changes. */
static void large_cut(uint32_t first, uint32_t count, uint32_t stays, bool dirty)
{
	bool clear = near__marks_clear(first + stays, count - stays);
	struct near__pages *p = &near__pages[near__node_of(first)];

	near__heap_lock(&p->lock);
	near__page_map_cut(first, stays);
	if (clear)
		near__pages_free_locked(p, first + stays, count - stays, dirty);
	else /* it stays in use for ever */
		memset(near__heap.page_map + first + stays, NEAR__REST, count - stays);
	near_lock_unlock(&p->lock);
}

/* `whole` pages of a block move to another one of `wanted`. A block that is lost leaves a hole. */
static enum near__moved move_whole(uint32_t from, uint32_t to, uint32_t whole, uint32_t wanted)
{
	size_t size = (size_t)whole << NEAR__PAGE_SHIFT;
	enum near__moved moved;

	near__marks_moved(from, to, whole);
	moved = near__os_move(near__page_at(to), near__page_at(from), size,
			      near__extent_of(to)->blocks.node);
	if (moved == NEAR__MOVE_LOST) {
		large_cut(to, wanted, whole, false);
		near__pages_lose(to, whole);
	}
	return moved;
}

/* Whole pages of the system are moved, the rest is copied; all of it if the move failed. */
static void *large_move(void *p, uint32_t had, uint32_t wanted)
{
	uint32_t unit = near__system_page(), begin = near__page_of(p), whole = 0, first;
	enum near__moved moved;
	size_t copied;
	bool zero;
	char *q;

	if (is_worth_moving(had) && begin % unit == 0)
		whole = had & ~(unit - 1);
	do {
		first = near__pages_alloc(near__node_now(), wanted, whole ? unit : 1, &zero);
		if (first == NEAR__NONE)
			return NULL;
		q = large_make(first, wanted);
		moved = whole ? move_whole(begin, first, whole, wanted) : NEAR__NOT_MOVED;
		whole = moved == NEAR__MOVED ? whole : 0;
	} while (moved == NEAR__MOVE_LOST);
	near__probe(NEAR__PROBE_FREE, p, (size_t)had << NEAR__PAGE_SHIFT);
	copied = (size_t)whole << NEAR__PAGE_SHIFT;
	memcpy(q + copied, (char *)p + copied, ((size_t)had << NEAR__PAGE_SHIFT) - copied);
	if (whole)
		near__pages_free(begin, whole, false);
	if (whole < had)
		near__pages_free(begin + whole, had - whole, true);
	large_count(&near__large_stats.pages, (int64_t)wanted - had);
	return q;
}

void *near__large_resize(void *p, size_t size)
{
	uint32_t first = first_of(near__offset_of(p)), had = near__heap.owner[first];
	uint32_t wanted = pages_for(size);
	size_t bytes = (size_t)had << NEAR__PAGE_SHIFT;

	if (!wanted)
		return NULL;
	if (size < bytes)
		near__probe(NEAR__PROBE_FREE, (char *)p + size, bytes - size);
	if (wanted < had) {
		large_cut(first, had, wanted, true);
		large_make(first, wanted);
		large_count(&near__large_stats.pages, (int64_t)wanted - had);
	}
	if (wanted <= had)
		return p;
	if (near__pages_grow(first, had, wanted)) {
		large_count(&near__large_stats.pages, (int64_t)wanted - had);
		return large_make(first, wanted);
	}
	return large_move(p, had, wanted);
}
