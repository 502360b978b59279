/* SPDX-License-Identifier: MIT */
/* The bits of pages with marks. They are set by any thread, in signal handlers, too (a collector
 * calls mprotect in one): each by an atomic or, without a lock. They are read and cleared by the
 * thread that frees the pages, when no block is there. */
#include "malloc/pages/marks.h"

#include "malloc/base/os.h"
#include "malloc/pages/node.h"

uint32_t near__marks;

/* The bits are in parts, for 2 GiB of the heap each: RLIMIT_AS counts what is mapped. */
#define PART_SHIFT 19u
#define PART_SIZE (((size_t)1 << PART_SHIFT) / 8)

static uint64_t *parts[(NEAR__MAX_PAGES >> PART_SHIFT) + 1]; /* each is stored once */

/* NULL: no bit of this part was ever set. Acquire: pairs with the release in marks_create. */
static uint64_t *marks_word(uint32_t page)
{
	uint64_t *bits = __atomic_load_n(&parts[page >> PART_SHIFT], __ATOMIC_ACQUIRE);

	return bits ? &bits[page % (1u << PART_SHIFT) / 64] : NULL;
}

static bool marks_create(uint32_t page)
{
	uint64_t **part = &parts[page >> PART_SHIFT], *none = NULL, *new = near__os_map(PART_SIZE);

	if (!new)
		return false;
	if (!__atomic_compare_exchange_n(part, &none, new, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		near__os_release(new, PART_SIZE);
	return true;
}

/* Relaxed: what frees the block is ordered after the call that marks it. */
static void marks_set(uint32_t first, uint32_t end)
{
	__atomic_store_n(&near__marks, 1, __ATOMIC_RELAXED);
	for (uint32_t page = first; page < end; page = (page | 63) + 1) {
		if (!marks_word(page) && !marks_create(page))
			return;
		__atomic_fetch_or(marks_word(page), near__page_bits(page, end), __ATOMIC_RELAXED);
	}
}

/* The first page of the system's page at that offset. */
static uint32_t unit_of(uint64_t offset)
{
	return (uint32_t)((offset & ~(near__page_size() - 1)) >> NEAR__PAGE_SHIFT);
}

void near__marks_set(const void *p, size_t size)
{
	uintptr_t begin = (uintptr_t)p, end, base, limit;

	if (!near__heap_has_begun() || __builtin_add_overflow(begin, size, &end) ||
	    !near__pages_contain(near__offset_of(p)))
		return;
	base = near__heap.base;
	limit = base + near__heap.size;
	end = end > limit ? limit : end;
	if (begin < end)
		marks_set(unit_of(begin - base), unit_of(end - base + near__page_size() - 1));
}

/* The first page of [page, end) whose bit is set, with `flip` all ones: is clear. */
static uint32_t marks_next(uint32_t page, uint32_t end, uint64_t flip)
{
	for (; page < end; page = (page | 63) + 1) {
		const uint64_t *at = marks_word(page);
		uint64_t word = at ? __atomic_load_n(at, __ATOMIC_RELAXED) : 0;

		word = (word ^ flip) & near__page_bits(page, end);
		if (word)
			return (page & ~63u) + (uint32_t)__builtin_ctzll(word);
	}
	return end;
}

/* A page of the system that other blocks share keeps its marks. */
static bool marks_renew(uint32_t first, uint32_t end)
{
	uint32_t unit = near__system_page();

	first = (first + unit - 1) & ~(unit - 1);
	end &= ~(unit - 1);
	if (first >= end)
		return true;
	if (!near__os_renew(near__page_at(first), (size_t)(end - first) << NEAR__PAGE_SHIFT,
			    near__extent_of(first)->blocks.node))
		return false;
	for (uint32_t page = first; page < end; page = (page | 63) + 1)
		__atomic_fetch_and(marks_word(page), ~near__page_bits(page, end), __ATOMIC_RELAXED);
	return true;
}

bool near__marks_clear(uint32_t first, uint32_t count)
{
	uint32_t end = first + count, stop;
	bool done = true;

	if (NEAR__LIKELY(!__atomic_load_n(&near__marks, __ATOMIC_RELAXED)))
		return true;
	for (first = marks_next(first, end, 0); first < end; first = marks_next(stop, end, 0)) {
		stop = marks_next(first, end, ~(uint64_t)0);
		done = marks_renew(first, stop) && done;
	}
	return done;
}

bool near__marks_has(uint32_t first, uint32_t count)
{
	return __atomic_load_n(&near__marks, __ATOMIC_RELAXED) &&
	       marks_next(first, first + count, 0) < first + count;
}

bool near__marks_on(uint64_t block, size_t size)
{
	uint32_t first = (uint32_t)(block >> NEAR__PAGE_SHIFT);
	uint32_t last = (uint32_t)((block + size - (size > 0)) >> NEAR__PAGE_SHIFT);

	return near__marks_has(first, last - first + 1);
}

void near__marks_moved(uint32_t from, uint32_t to, uint32_t count)
{
	if (near__marks_has(from, count))
		marks_set(to, to + count);
}
