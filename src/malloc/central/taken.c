/* SPDX-License-Identifier: MIT */
/* The list of blocks that were taken from spans. */
#include "malloc/central/taken.h"

#include "malloc/central/spans.h"

/* The first word of a block is marked before it returns to its span. If it has no mark, the program
 * has written to the block since, or has freed it twice: it is then in another list, too, or in
 * use. In a page that was returned to the system since then, the word is 0. */
static bool is_intact(const void *p)
{
	uint64_t word = *(const uint64_t *)p;

	return NEAR__LIKELY(word == near__span_mark(p)) ||
	       (!word && __atomic_load_n(&near__span_of(p)->discarded, __ATOMIC_RELAXED));
}

/* A block that was never used is not loaded: the page fault would map a page of zeros, and the link
 * would be a second fault. */
static void put_taken(uint64_t *list, const struct near__taken *t, unsigned i)
{
	void *p = t->blocks[i];

	if (i >= t->fresh && NEAR__UNLIKELY(!is_intact(p)))
		near__heap_misuse("write to a freed block, or freed twice", p);
	near__list_put(list, p);
}

/* In the order of their addresses, but the first block differs from class to class: spans begin at
 * pages, and the first blocks of all classes would share a few lines of the CPU's cache (a loop
 * over 19 classes took a sixth longer). */
uint64_t near__taken_list(unsigned class, const struct near__taken *t)
{
	unsigned first = t->n * (class * 23 % 64) / 64;
	uint64_t list = NEAR__EMPTY_LIST;

	for (unsigned i = first; i-- > 0;)
		put_taken(&list, t, i);
	for (unsigned i = t->n; i-- > first;)
		put_taken(&list, t, i);
	return list;
}
