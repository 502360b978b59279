/* SPDX-License-Identifier: MIT */
/* space: the parts of the heap that belong to each node.
 *
 * The heap is divided into segments. An extent is a row of segments that belong to one node; it is
 * used from its beginning on. A node that needs more claims the next segments that no node has yet:
 * they extend its newest extent if they follow it, else they become a new extent; a large block
 * claims as many as it needs. A node can thus use all segments that the others do not. With one
 * node there is one segment and one extent. */
#ifndef NEARCPU_MALLOC_SPACE_H
#define NEARCPU_MALLOC_SPACE_H

#include "malloc/pages/pages.h"

struct near__extent {
	struct near__range blocks, map, owners, dirty;
	uint32_t first, end; /* pages; end: 0 before it is claimed */
	uint32_t top;        /* the first page that was never used */
	uint32_t node;
	struct near__extent *older; /* of the same node */
};

/* Requires that the beginnings of the tables are in near__heap. False: no memory. */
bool near__space_init(void);

/* The caller of the next three functions holds the lock of the node's pages.
 *
 * Makes *e an extent of at least `count` pages. False: there are not that many unclaimed ones. */
bool near__extent_claim(struct near__extent *e, unsigned node, uint64_t count);
/* Extends it to `end`, if it does not reach that far. False: it cannot. */
bool near__extent_reach(struct near__extent *e, uint64_t end);
/* Makes the memory and the tables below `top` usable. Requires that it reaches `top`. False: no
 * memory. */
bool near__extent_commit(struct near__extent *e, uint32_t top);

/* By page >> shift. An entry is written once, after the extent that it names. */
struct near__extent_map {
	struct near__extent **extents;
	unsigned shift;
};
extern struct near__extent_map near__extent_map __attribute__((visibility("hidden")));

/* Requires no lock. NULL: the page is in no extent. Pairs with the release in space.c. */
static inline struct near__extent *near__extent_of(uint32_t page)
{
	const struct near__extent_map *m = &near__extent_map;

	return __atomic_load_n(&m->extents[(uint64_t)page >> m->shift], __ATOMIC_ACQUIRE);
}

void near__space_fork(near__fork_step *step);

#endif
