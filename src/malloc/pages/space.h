/* SPDX-License-Identifier: MIT */
/* space: the parts of the heap that belong to each node.
 *
 * The heap is divided into segments. An extent is a row of segments that belong to one node; it is
 * used from its beginning on. A node that needs more claims the next segments if they follow its
 * extent, else the first ones that no node has: these become a new extent. A large block claims as
 * many as it needs. A node can thus use all segments that the others do not.
 *
 * The address space is not reserved, and other code may have mapped a part of it: blocks, or the
 * tables that describe them. An extent ends in front of such a mapping, and the node continues with
 * the first segments that have room. What is between the two is a hole: it stays one when the
 * mapping is gone, its tables are not committed, and nothing counts its pages. */
#ifndef NEARCPU_MALLOC_SPACE_H
#define NEARCPU_MALLOC_SPACE_H

#include "malloc/pages/pages.h"

struct near__extent {
	struct near__range blocks, map, owners, dirty;
	uint32_t first, end; /* pages; end: 0 before it is claimed */
	uint32_t top;        /* the first page that was never used */
	uint32_t node;
	uint64_t refused;           /* it cannot be extended to this page, nor further */
	struct near__extent *older; /* of the same node */
};

/* Requires that the beginnings of the tables are in near__heap. False: no memory. */
bool near__space_init(void);

/* The caller of the next three functions holds the lock of the node's pages.
 *
 * Makes *e a new extent, in which `count` pages are usable, beginning at `align`. OCCUPIED: no
 * unclaimed segments have room for them. */
enum near__commit near__extent_claim(struct near__extent *e, unsigned node, uint32_t count,
				     uint32_t align);
/* Makes the memory and the tables below the page `end` usable. OCCUPIED: the extent ends in front
 * of it. */
enum near__commit near__extent_commit(struct near__extent *e, uint64_t end);
/* The same up to the end that was refused last, as far as there is room; unless what remains is so
 * much that it is worth being kept for blocks that fit, or there is no room for descriptors: for
 * these pages, and for `others` that are usable elsewhere but not used yet. Returns the end of the
 * usable pages. */
uint32_t near__extent_fill(struct near__extent *e, uint64_t others);

/* The first page that is aligned: addresses are, not numbers. */
static inline uint64_t near__align_page(uint32_t page, uint32_t align)
{
	uint64_t base = near__heap.base >> NEAR__PAGE_SHIFT;

	return ((base + page + align - 1) & ~(uint64_t)(align - 1)) - base;
}

/* By page >> shift. An entry is written once, after the extent that it names. Segments that no node
 * can use have an extent without pages. */
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
