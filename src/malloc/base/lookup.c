/* SPDX-License-Identifier: MIT */
/* The table from sizes to classes.
 *
 * Each class that is in use takes a page or more, of which a small program fills little. A heap
 * therefore begins with few classes, the powers of two, and uses all of them once it has grown: the
 * memory that the first blocks waste is little compared with the rest then. The page map names a
 * block's class, so that blocks from before the change are freed as before. */
#include "malloc/base/lookup.h"

/* A quarter of it is wasted at most, on average less than the pages of twice as many classes. */
#define SMALL_HEAP ((size_t)256 << 10)

uint16_t near__entry_offsets[NEAR__TABLE_MAX / 8 + 1];
static bool has_grown;

static unsigned class_coarse(unsigned class)
{
	while (near__sizes[class].size < 16 ||
	       near__sizes[class].size & (near__sizes[class].size - 1))
		class ++;
	return class;
}

/* The fast paths load a number plainly, and allocate from the class that they find: an older number
 * is as good. */
static void lookup_fill(bool all)
{
	for (size_t i = 0; i <= NEAR__TABLE_MAX / 8; i++) {
		unsigned class = near__class_compute(i ? i * 8 : 1);

		class = all ? class : class_coarse(class);
		__atomic_store_n(&near__entry_offsets[i],
				 (uint16_t)(class * sizeof(struct near__entry)), __ATOMIC_RELAXED);
	}
}

void near__lookup_begin(void)
{
	lookup_fill(__atomic_load_n(&has_grown, __ATOMIC_RELAXED));
}

/* Two threads may do this concurrently: they store the same values. */
void near__lookup_all(void)
{
	if (__atomic_load_n(&has_grown, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&has_grown, true, __ATOMIC_RELAXED);
	lookup_fill(true);
}

void near__lookup_grown(size_t heap)
{
	if (heap > SMALL_HEAP)
		near__lookup_all();
}
