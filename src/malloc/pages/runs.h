/* SPDX-License-Identifier: MIT */
/* runs: free runs of pages, by size. Those of up to 64 pages, which spans use and return, are in a
 * list for each length, the last that was freed first; longer ones are in a tree. */
#ifndef NEARCPU_MALLOC_RUNS_H
#define NEARCPU_MALLOC_RUNS_H

#include "malloc/base/heap.h"

struct near__run {
	uint32_t first, count;
	uint32_t left, right;  /* in the tree, or a list; 0 is none */
	uint32_t older, newer; /* among the dirty */
	uint32_t freed;        /* ms, the low 32 bits */
	bool dirty;            /* a page of it may be; then it is in the dirty list */
};

/* Runs are named by the number of their descriptor (meta.c). */
static inline struct near__run *near__run_at(uint32_t number)
{
	return near__meta_at(number);
}

#define NEAR__RUN_LISTS 64u

struct near__runs {
	uint64_t filled; /* a bit for each list that is not empty, 0: of one page */
	uint32_t lists[NEAR__RUN_LISTS];
	uint32_t root;
};

void near__runs_insert(struct near__runs *all, uint32_t number);
void near__runs_remove(struct near__runs *all, uint32_t number);

/* The smallest run of `count` pages at least; the lowest of long ones. 0: none. */
uint32_t near__runs_find(const struct near__runs *all, uint32_t count);

/* The run of at least that many pages, more than NEAR__RUN_LISTS, that has this page; 0: none. It
 * visits all of that size. */
uint32_t near__runs_with(const struct near__runs *all, uint32_t page, uint32_t least);

#endif
