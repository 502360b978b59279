/* SPDX-License-Identifier: MIT */
/* Blocks that are a span by themselves: a run of pages, whose first has the tag of the class. A
 * slot keeps about two of a class; the others return to the pages immediately, for all classes. */
#include "malloc/central/single.h"
#include "malloc/pages/pages.h"

/* So far. Each block is counted as taken before it is counted as given: a load-acquire of the
 * second number, and then of the first, finds no more given than taken. They order nothing else. */
static struct {
	uint64_t taken, given;
} sums[NEAR__SIZES + 1];

uint64_t near__single_take(unsigned node, unsigned class)
{
	uint64_t list = NEAR__EMPTY_LIST;
	bool zero;
	uint32_t first = near__pages_alloc(node, near__sizes[class].pages, 1, &zero);

	if (first == NEAR__NONE)
		return list;
	near__set_tag(first, (uint8_t) class);
	__atomic_fetch_add(&sums[class].taken, 1, __ATOMIC_RELAXED);
	near__list_put(&list, near__page_at(first));
	return list;
}

/* Anything but the beginning of a block of the class stops the program. */
static uint32_t page_of(const void *p, unsigned class)
{
	uint32_t first = near__page_of(p);

	if (p != near__page_at(first))
		near__heap_die("free of a pointer into a block", p);
	if (near__heap.page_map[first] != class)
		near__heap_die("double free", p);
	return first;
}

void near__single_give(unsigned class, uint64_t list)
{
	while (!near__list_is_empty(list)) {
		uint32_t first = page_of(near__list_take(&list), class);

		near__pages_free(first, near__sizes[class].pages, true);
		__atomic_fetch_add(&sums[class].given, 1, __ATOMIC_RELEASE);
	}
}

void near__single_stats(unsigned class, struct near__central_stats *out)
{
	out->spills = __atomic_load_n(&sums[class].given, __ATOMIC_ACQUIRE);
	out->refills = __atomic_load_n(&sums[class].taken, __ATOMIC_RELAXED);
	out->out = out->spans = out->carved = out->refills - out->spills;
}
