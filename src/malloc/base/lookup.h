/* SPDX-License-Identifier: MIT */
/* lookup: from a size to the entry of its class, by a table that changes once. */
#ifndef NEARCPU_MALLOC_LOOKUP_H
#define NEARCPU_MALLOC_LOOKUP_H

#include "malloc/base/heap.h"

/* Where the entry of the class of (n + 7) / 8 is in a slot's cache. */
extern uint16_t near__entry_offsets[NEAR__TABLE_MAX / 8 + 1] __attribute__((visibility("hidden")));

static inline struct near__entry *near__entry_for(size_t n)
{
	return (struct near__entry *)((char *)near__heap.caches +
				      near__entry_offsets[(n + 7) >> 3]);
}

/* The class that blocks of n bytes are allocated from now. Relaxed: an older one is as good. Before
 * the heap begins it is 0, of which no list has a block that the thread can take: heap_begin() in
 * api/malloc_init.c orders the table before those. */
static inline unsigned near__class_of(size_t n)
{
	if (n > NEAR__TABLE_MAX)
		return near__class_compute(n);
	return __atomic_load_n(&near__entry_offsets[(n + 7) >> 3], __ATOMIC_RELAXED) /
	       sizeof(struct near__entry);
}

void near__lookup_begin(void);

/* The size of the heap in bytes has grown to this. */
void near__lookup_grown(size_t heap);

/* From now on all classes are used, however small the heap is; also before it begins. */
void near__lookup_all(void);

#endif
