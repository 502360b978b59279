/* SPDX-License-Identifier: MIT */
/* Which free pages were written, and which runs of these are the oldest. */
#include "malloc/pages/dirty.h"

#include <string.h>

#include "malloc/base/conf.h"

/* The bits of [first, end) in the word of `first`. */
static uint64_t mask_of(uint32_t first, uint32_t end)
{
	uint64_t mask = ~(uint64_t)0 << first % 64;

	return end - (first & ~63u) < 64 ? mask & ~(~(uint64_t)0 << end % 64) : mask;
}

/* The thread that purges pages loads their bits without the lock, while other threads change other
 * bits of the word. */
static uint64_t *word_at(uint32_t page)
{
	return near__heap.dirty - 1 - page / 64;
}

static uint64_t word_of(uint32_t page)
{
	return __atomic_load_n(word_at(page), __ATOMIC_RELAXED);
}

static void set_in_word(uint32_t first, uint32_t end, bool dirty)
{
	uint64_t mask = mask_of(first, end);
	uint64_t word = dirty ? word_of(first) | mask : word_of(first) & ~mask;

	__atomic_store_n(word_at(first), word, __ATOMIC_RELAXED);
}

/* The words in the middle belong to this run alone. */
void near__dirty_set(uint32_t first, uint32_t count, bool dirty)
{
	uint32_t end = first + count, from = (first + 63) & ~63u, to = end & ~63u;

	if (from > to) {
		set_in_word(first, end, dirty);
		return;
	}
	if (first < from)
		set_in_word(first, from, dirty);
	if (from < to)
		memset(word_at(to - 1), dirty ? 0xff : 0, (to - from) / 8);
	if (to < end)
		set_in_word(to, end, dirty);
}

/* The first page of [first, end) whose bit is set; with `flip` all ones: is clear. */
static uint32_t next(uint32_t first, uint32_t end, uint64_t flip)
{
	for (uint32_t g = first; g < end; g = (g | 63) + 1) {
		uint64_t word = (word_of(g) ^ flip) & mask_of(g, end);

		if (word)
			return (g & ~63u) + (uint32_t)__builtin_ctzll(word);
	}
	return end;
}

uint32_t near__dirty_next(uint32_t first, uint32_t end)
{
	return next(first, end, 0);
}

uint32_t near__dirty_count(uint32_t first, uint32_t count)
{
	uint32_t end = first + count, n = 0;

	for (uint32_t g = first; g < end; g = (g | 63) + 1)
		n += (uint32_t)__builtin_popcountll(word_of(g) & mask_of(g, end));
	return n;
}

/* Clean pages that are in one of the system's with a dirty one go with it. */
void near__dirty_discard(uint32_t begin, uint32_t end)
{
	uint32_t unit = near__system_page(), first = begin, stop;

	for (; (first = near__dirty_next(first, end)) < end; first = stop) {
		stop = (next(first, end, ~(uint64_t)0) + unit - 1) & ~(unit - 1);
		stop = stop < end ? stop : end;
		first &= ~(unit - 1);
		first = first > begin ? first : begin;
		near__os_discard(near__page_at(first), (size_t)(stop - first) << NEAR__PAGE_SHIFT);
	}
}

bool near__run_is_due(const struct near__run *r, uint64_t decay_ms)
{
	return (uint32_t)near__os_ms() - r->freed >= decay_ms;
}

void near__dirty_insert(struct near__dirty_list *all, uint32_t number)
{
	struct near__run *r = near__run_at(number);
	uint32_t *newer, *older;

	if (!r->dirty)
		return;
	if (near__run_is_due(r, near__malloc_conf.decay_ms)) {
		r->older = 0;
		r->newer = all->oldest;
	} else {
		r->newer = 0;
		r->older = all->newest;
	}
	newer = r->older ? &near__run_at(r->older)->newer : &all->oldest;
	older = r->newer ? &near__run_at(r->newer)->older : &all->newest;
	*newer = *older = number;
}

void near__dirty_remove(struct near__dirty_list *all, uint32_t number)
{
	struct near__run *r = near__run_at(number);

	if (!r->dirty)
		return;
	*(r->older ? &near__run_at(r->older)->newer : &all->oldest) = r->newer;
	*(r->newer ? &near__run_at(r->newer)->older : &all->newest) = r->older;
}
