/* SPDX-License-Identifier: MIT */
/* Plain allocation: the cache that serves this thread, or the pages. The only place where the slow
 * paths check the clock. */
#include "malloc/cache/plain.h"

#include <errno.h>

#include "malloc/base/lookup.h"
#include "malloc/cache/background.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"
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
	if (!near__pages_fit(near__node_now(), (uint32_t)pages, 1))
		near__cache_give_large();
}

static void *try_alloc(size_t align, size_t n, bool *zero)
{
	unsigned class = aligned_class(align, n);
	void *p;

	*zero = false;
	before_growth(class, n);
	if (!class)
		near__central_make_room(near__node_now(), (uint32_t)(n / NEAR__PAGE + 1), 1);
	p = class ? alloc_class(class) : near__large_alloc(n ? n : 1, align, zero);
	if (!class)
		near__step();
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
static void free_class(unsigned class, uint64_t block)
{
	near__probe(NEAR__PROBE_FREE, near__list_block(block), near__sizes[class].size);
	if (!near__heap.caches) {
		near__thread_cache_free(class, block);
	} else if (near__push_by_slot(near__entry_of(class), block)) {
		return;
	} else if (!near__cache_free(class, block)) {
		near__thread_cache_free(class, block);
		return;
	}
	near__decay();
}

/* The place is not the beginning of a block. */
__attribute__((noreturn, cold)) static void refuse_free(struct near__place at)
{
	const char *what = "free of a pointer that is not allocated";

	if (at.tag)
		what = "free of a pointer into a block";
	if (at.tag == NEAR__OUTSIDE)
		what = "free of a pointer that is not from here";
	near__heap_die(what, at.offset);
}

void near__plain_free(struct near__place at)
{
	if (NEAR__LIKELY(at.class)) {
		free_class(at.class, at.offset);
	} else if (at.tag == NEAR__LARGE) {
		near__large_free(at.offset);
		near__decay();
	} else {
		refuse_free(at);
	}
}

__attribute__((noreturn, cold)) static void refuse_use(struct near__place at)
{
	const char *what = "use of a pointer that is not allocated";

	if (at.tag == NEAR__OUTSIDE)
		what = "use of a pointer that is not from here";
	else if (near__class_of_tag(at.tag))
		what = "use of a pointer into a block";
	near__heap_die(what, at.offset);
}

size_t near__plain_size(struct near__place at)
{
	if (at.class)
		return near__sizes[at.class].size;
	if (at.tag != NEAR__LARGE)
		refuse_use(at);
	return near__large_size(at.offset);
}
