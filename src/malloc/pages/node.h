/* SPDX-License-Identifier: MIT */
/* node: the pages of a NUMA node: its parts of the heap, and its free runs. For the files of this
 * folder alone; the others use pages.h. */
#ifndef NEARCPU_MALLOC_NODE_H
#define NEARCPU_MALLOC_NODE_H

#include "malloc/pages/pages.h"

/* The bits of [first, end) in the word of `first`, in a map with a bit for each page. */
static inline uint64_t near__page_bits(uint32_t first, uint32_t end)
{
	uint64_t mask = ~(uint64_t)0 << first % 64;

	return end - (first & ~63u) < 64 ? mask & ~(~(uint64_t)0 << end % 64) : mask;
}

/* A page in use may change its tag without this lock, but does not become free. */
static inline bool near__page_is_free(uint32_t page)
{
	return __atomic_load_n(&near__heap.page_map[page], __ATOMIC_RELAXED) == 0;
}

/* ---- free runs ---- */

/* By size: those of up to 64 pages, which spans use and return, are in a
 * list for each length, the last that was freed first; longer ones are in a tree. */
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
	/* The dirty ones by age. A run is inserted last; but first if it is due, as a run that is
	 * cut and merged again and again must not stay dirty for ever. */
	uint32_t oldest, newest;
};

/* The smallest run of `count` pages at least; the lowest of long ones. 0: none. */
uint32_t near__runs_find(const struct near__runs *all, uint32_t count);

/* The run of at least that many pages, more than NEAR__RUN_LISTS, that has this page; 0: none. It
 * visits all of that size. */
uint32_t near__runs_with(const struct near__runs *all, uint32_t page, uint32_t least);

/* `dirty`: a bit for each page, set if the page may have been written since the system provided it.
 * Valid for free pages. The caller holds the lock of their node, or has removed them from the free
 * runs. */
void near__dirty_set(uint32_t first, uint32_t count, bool dirty);
uint32_t near__dirty_count(uint32_t first, uint32_t count);

/* The first dirty page of [first, end), else `end`. */
uint32_t near__dirty_next(uint32_t first, uint32_t end);

/* Returns the dirty pages to the system. Their bits stay. */
void near__dirty_discard(uint32_t first, uint32_t end);

/* Whether it was freed at least `decay_ms` ago. */
bool near__run_is_due(const struct near__run *r, uint64_t decay_ms);

/* ---- space.c ---- */

/* The parts of the heap that belong to each node.
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

/* ---- a node ---- */

struct near__pages {
	struct near_lock lock;
	struct near__runs runs;
	uint32_t spare; /* descriptors that are not in use, by `left` */
	uint32_t used;  /* pages of all extents, without holes */
	struct near__extent *newest, *unclaimed;
	struct near__extent first;
	uint64_t taken; /* pages that were clean when they were allocated, so far */
	/* `free` and `dirty` of these are read without the lock; so is `taken`. */
	struct near__pages_stats stats;
} __attribute__((aligned(NEAR__CACHE_LINE)));
extern struct near__pages near__pages[NEAR__MAX_NODES] __attribute__((visibility("hidden")));

/* The caller holds the lock: one thread writes. Relaxed: a reader without it needs an estimate. */
static inline void near__pages_add(uint64_t *sum, int64_t n)
{
	__atomic_store_n(sum, *sum + (uint64_t)n, __ATOMIC_RELAXED);
}

/* The caller of the next six functions holds the lock of the node's pages.
 *
 * Makes a free run. Requires that the tags are 0. A run is dirty if one of its pages may be, since
 * `freed`. */
void near__pages_insert(struct near__pages *p, uint32_t first, uint32_t count, bool dirty,
			uint32_t freed);
/* Its pages are in no run from then on. */
void near__pages_remove(struct near__pages *p, uint32_t number);
/* Makes pages that are in no run pages in use. Returns how many of them may have been written. */
uint32_t near__pages_take(struct near__pages *p, uint32_t first, uint32_t count);
/* space.c: takes pages at the end of those that were ever used, with the free run that ends there.
 * NEAR__NONE: no memory. */
uint32_t near__space_alloc(struct near__pages *p, uint32_t count, uint32_t align);
/* Makes the pages below `end` used, and takes the run with this number, which is at the end of the
 * extent; 0: none. False: no memory. */
bool near__space_grow(struct near__pages *p, struct near__extent *e, uint32_t number, uint64_t end);
/* Frees pages in use, and merges them with free neighbours. */
void near__pages_free_locked(struct near__pages *p, uint32_t first, uint32_t count, bool dirty);

/* Only the first and last NEAR__MARKED tags of a run in use from NEAR__LONG pages on are set; fewer
 * pages without tags than NEAR__MIDDLE are no middle of such a run. */
#define NEAR__LONG 4096u
#define NEAR__MARKED 64u
#define NEAR__MIDDLE (NEAR__LONG - 2 * NEAR__MARKED)
/* Of a run in use `stays` pages remain in use. The first tag changes. */
void near__page_map_cut(uint32_t first, uint32_t stays);

/* purge.c: held while pages are in no run, and the system takes them. It excludes forks: a child
 * would never get these pages back. Taken before the lock of a node. */
extern struct near_lock near__purging __attribute__((visibility("hidden")));

#endif
