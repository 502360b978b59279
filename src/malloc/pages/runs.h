/* SPDX-License-Identifier: MIT */
/* runs: free runs of pages, by size. Those of up to 64 pages, which come and go with the
 * spans, stand in a list for each length, the last that was freed first; longer ones in a tree. */
#ifndef NEARCPU_MALLOC_RUNS_H
#define NEARCPU_MALLOC_RUNS_H

#include "malloc/pages/tree.h"

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

#endif
