/* SPDX-License-Identifier: MIT */
/* Blocks that are a span by themselves: a run of pages, whose first has the tag of the class. What
 * no slot keeps returns to the pages immediately, for all classes. The lock of the pages is one for
 * all classes, and a thread that yields for it keeps all its blocks: a batch takes it once. */
#include "malloc/central/central.h"
#include "malloc/pages/pages.h"

#define SHARE 256  /* a batch has at most 1/256 of the heap, */
#define LEAST 2    /* or this many blocks */
#define AT_ONCE 32 /* blocks that move under one lock */

/* So far. Each block is counted as taken before it is counted as given: a load-acquire of the
 * second number, and then of the first, finds no more given than taken. They order nothing else.
 * Lists are statistics alone. */
static struct {
	uint64_t taken, given;    /* blocks */
	uint64_t refills, spills; /* lists */
} sums[NEAR__SIZES + 1];

/* How many blocks are a small part of the heap. */
static unsigned heap_share(unsigned class)
{
	uint64_t heap = (uint64_t)near__pages_used() << NEAR__PAGE_SHIFT;
	uint64_t n = heap / SHARE / near__sizes[class].size;

	return n < near__sizes[class].batch ? (unsigned)n : near__sizes[class].batch;
}

unsigned near__single_batch(unsigned class)
{
	unsigned n = heap_share(class);

	return n < LEAST ? LEAST : n;
}

/* From another node, if that one has no memory left. */
static unsigned take_runs(unsigned node, unsigned class, unsigned most, uint32_t *firsts)
{
	unsigned wanted = heap_share(class), n;
	bool zero;

	wanted = wanted < most ? wanted : most;
	n = near__pages_alloc_runs(node, firsts, wanted ? wanted : 1, near__sizes[class].pages);
	if (n)
		return n;
	firsts[0] = near__pages_alloc(node, near__sizes[class].pages, 1, &zero);
	return firsts[0] != NEAR__NONE;
}

uint64_t near__single_take(unsigned node, unsigned class, unsigned most)
{
	uint32_t firsts[AT_ONCE];
	uint64_t list = NEAR__EMPTY_LIST;
	unsigned n = take_runs(node, class, most, firsts);

	if (!n)
		return list;
	__atomic_fetch_add(&sums[class].taken, n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums[class].refills, 1, __ATOMIC_RELAXED);
	while (n-- > 0) {
		near__set_tag(firsts[n], (uint8_t) class);
		near__list_put(&list, near__page_at(firsts[n]));
	}
	return list;
}

/* Anything but the beginning of a block of the class is misuse. */
static bool find_page(const void *p, unsigned class, uint32_t *first)
{
	*first = near__page_of(p);
	if (p != near__page_at(*first))
		near__heap_misuse("free of a pointer into a block", p);
	else if (near__heap.page_map[*first] != class)
		near__heap_misuse("double free", p);
	else
		return true;
	return false;
}

void near__single_give(unsigned class, uint64_t list)
{
	uint32_t firsts[AT_ONCE];

	__atomic_fetch_add(&sums[class].spills, 1, __ATOMIC_RELAXED);
	while (!near__list_is_empty(list)) {
		unsigned n = 0;

		while (!near__list_is_empty(list) && n < AT_ONCE)
			n += find_page(near__list_take(&list), class, &firsts[n]);
		near__pages_free_runs(firsts, n, near__sizes[class].pages);
		__atomic_fetch_add(&sums[class].given, n, __ATOMIC_RELEASE);
	}
}

void near__single_stats(unsigned class, struct near__central_stats *out)
{
	uint64_t given = __atomic_load_n(&sums[class].given, __ATOMIC_ACQUIRE);

	out->refills = __atomic_load_n(&sums[class].refills, __ATOMIC_RELAXED);
	out->spills = __atomic_load_n(&sums[class].spills, __ATOMIC_RELAXED);
	out->out = out->spans = out->carved =
		__atomic_load_n(&sums[class].taken, __ATOMIC_RELAXED) - given;
}
