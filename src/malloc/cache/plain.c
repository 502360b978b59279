/* SPDX-License-Identifier: MIT */
/* Plain allocation: the cache that serves this thread, or the pages. The only place where the slow
 * paths check the clock. */
#include "malloc/cache/plain.h"

#include <errno.h>

#include "malloc/base/lookup.h"
#include "malloc/cache/background.h"
#include "malloc/cache/cache.h"
#include "malloc/pages/pages.h"

#define SMALL_HEAP ((4u << 20) >> NEAR__PAGE_SHIFT) /* pages */

void *near__no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/* ---- allocation ---- */

/* Spans begin at pages, so that blocks are at multiples of each power of two that divides their
 * size. 0: no class has blocks with this alignment. */
static unsigned aligned_class(size_t align, size_t n)
{
	unsigned class;

	n = n < align ? align : n;
	if (align > NEAR__PAGE || n > NEAR__SMALL_MAX)
		return 0;
	class = near__class_of(n);
	while (class <= NEAR__SIZES && near__sizes[class].size & (align - 1))
		class ++;
	return class <= NEAR__SIZES ? class : 0;
}

/* free must not start a thread: the C library frees stacks while it holds the lock of their list.
 */
static void *alloc_class(unsigned class)
{
	void *p;

	if (!near__heap.caches)
		p = near__thread_cache_alloc(class);
	else if (!near__cache_alloc(class, &p))
		return near__thread_cache_alloc(class);
	if (p) {
		near__decay();
		near__background_start();
	}
	return p;
}

/* Idle blocks of 8 KiB and more, of which a slot keeps two for each class, are a large part of a
 * small heap. They return to the pages before others make it grow, which is seldom. */
static void before_growth(unsigned class, size_t n)
{
	size_t pages = class ? near__sizes[class].pages : n / NEAR__PAGE + 1;

	if (NEAR__LIKELY(near__pages_used() > SMALL_HEAP) || pages > SMALL_HEAP ||
	    !near__heap.caches || (class && class < NEAR__FIRST_LARGE))
		return;
	if (!near__pages_fit(near__node_now(), (uint32_t)pages))
		near__cache_give_large();
}

static void *try_alloc(size_t align, size_t n, bool *zero)
{
	unsigned class = aligned_class(align, n);
	void *p;

	*zero = false;
	before_growth(class, n);
	p = class ? alloc_class(class) : near__large_alloc(n ? n : 1, align, zero);
	return p ? p : near__no_memory();
}

void *near__plain_alloc(size_t align, size_t n, bool *zero)
{
	int saved = errno;
	void *p = try_alloc(align, n, zero);

	if (NEAR__LIKELY(p != NULL) || n >= near__heap.size)
		return p;
	/* The caches may have memory. Emptying them interrupts other CPUs, but the system has no
	 * more. */
	near__reclaim();
	p = try_alloc(align, n, zero);
	errno = p ? saved : ENOMEM;
	return p;
}

/* ---- free ---- */

/* The probe comes before another thread can have the block. */
static void free_class(void *p, unsigned class)
{
	near__probe(NEAR__PROBE_FREE, p, near__sizes[class].size);
	if (!near__heap.caches) {
		near__thread_cache_free(class, p);
	} else if (near__push_by_slot(near__entry_of(class), p, near__offset_of(p))) {
		return;
	} else if (!near__cache_free(class, p)) {
		near__thread_cache_free(class, p);
		return;
	}
	near__decay();
}

void near__plain_free(void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned tag, class;
	bool begins;

	if (!near__pages_contain(offset))
		near__heap_die("free of a pointer that is not from here", p);
	tag = near__heap.page_map[offset >> NEAR__PAGE_SHIFT];
	begins = near__begins(tag, offset, &class);
	if (tag == NEAR__LARGE) {
		near__large_free(p);
		near__decay();
	} else if (tag == 0) {
		near__heap_die("free of a pointer that is not allocated", p);
	} else if (!begins) {
		near__heap_die("free of a pointer into a block", p);
	} else {
		free_class(p, class);
	}
}

size_t near__plain_size(const void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned tag, class;

	if (!near__pages_contain(offset))
		near__heap_die("use of a pointer that is not from here", p);
	tag = near__heap.page_map[offset >> NEAR__PAGE_SHIFT];
	if (tag == NEAR__LARGE)
		return near__large_size(p);
	if (!near__class_of_tag(tag))
		near__heap_die("use of a pointer that is not allocated", p);
	if (!near__begins(tag, offset, &class))
		near__heap_die("use of a pointer into a block", p);
	return near__sizes[class].size;
}
