/* SPDX-License-Identifier: MIT */
/* tree: free runs of pages, by size. A treap ordered by (count, first), whose priorities come
 * from the place of a run: no state but the root. */
#ifndef NEARCPU_MALLOC_TREE_H
#define NEARCPU_MALLOC_TREE_H

#include "malloc/base/heap.h"

struct near__run {
	uint32_t first, count;
	uint32_t left, right;  /* in the tree, or a list; 0 is none */
	uint32_t older, newer; /* among the dirty */
	uint32_t freed;        /* ms, the low 32 bits */
	bool dirty;            /* something may have been written there; then it is in the list */
};

/* Runs are named by the number of their descriptor (meta.c). */
static inline struct near__run *near__run_at(uint32_t number)
{
	return near__meta_at(number);
}

void near__tree_insert(uint32_t *root, uint32_t number);
void near__tree_remove(uint32_t *root, uint32_t number);

/* The smallest run of `count` pages at least, among equals the lowest. 0: none. */
uint32_t near__tree_find(uint32_t root, uint32_t count);

#endif
