/* SPDX-License-Identifier: MIT */
/* pages: runs of pages, for spans and large blocks. All counts are in pages. */
#ifndef NEARCPU_MALLOC_PAGES_H
#define NEARCPU_MALLOC_PAGES_H

#include "malloc/base/heap.h"

bool near__pages_init(void);
/* NEAR__NONE: no memory. From another node if that one has none. */
uint32_t near__pages_alloc(unsigned node, uint32_t count, uint32_t align, bool *zero);
/* The same for up to n runs, of this node, under one lock. Returns how many there are. */
unsigned near__pages_alloc_runs(unsigned node, uint32_t *firsts, unsigned n, uint32_t count);
/* Whether there is such a free run, whose pages the system has not taken: a hint. */
bool near__pages_fit(unsigned node, uint32_t count, uint32_t align);
/* `dirty`: something was written there. */
void near__pages_free(uint32_t first, uint32_t count, bool dirty);
/* Frees n dirty runs of `count` pages each, all of one node, under one lock. */
void near__pages_free_runs(const uint32_t *firsts, unsigned n, uint32_t count);
/* Pages in use become a hole, as other code has mapped a part of them. Nothing counts them then. */
void near__pages_lose(uint32_t first, uint32_t count);
bool near__pages_grow(uint32_t first, uint32_t count, uint32_t wanted);
/* Returns pages that were freed `decay_ms` ago to the system, up to `most` bytes. Returns how
 * many bytes these were. */
size_t near__pages_purge(uint64_t decay_ms, size_t most);
/* Returns pages that are free, and were returned before, once more: the kernel may have made them
 * resident again. All; or those of up to `areas` areas of 2 MiB that are in use in part, and to
 * continue with at the next call. */
void near__pages_purge_clean(void);
void near__pages_purge_areas(unsigned areas);
/* Returns free pages beyond a limit (purge.c) to the system. `now` is in ms. Called once per slow
 * path, without locks. */
void near__pages_limit(uint64_t now);
/* Returns up to `count` of them, whatever their age, because as many new ones were allocated. */
void near__pages_replace(uint64_t count);
struct near__pages_stats {
	uint64_t top, free, dirty; /* pages; dirty: free ones that may have been written */
	uint64_t purged, purges;   /* pages, and times, so far */
	uint64_t committed;        /* bytes, with the tables */
};
void near__pages_stats(struct near__pages_stats *out);
/* Pages that were ever used. */
uint32_t near__pages_used(void);
/* Whether there can be a block at this offset: only then may the page map be read. */
bool near__pages_contain(uint64_t offset);
/* What is at an offset. A free finds it once; all levels get the block's offset, and its class. */
struct near__place {
	uint64_t offset;
	uint16_t tag;   /* of the page */
	uint16_t class; /* of the block that begins there; 0: none, or not of a class */
};
#define NEAR__OUTSIDE 256 /* no tag: the address is not from here */
struct near__place near__place_at(uint64_t offset);
struct near__place near__place_of(const void *p);

void near__pages_fork(near__fork_step *step);
void near__purge_fork(near__fork_step *step); /* purge.c; before the pages */

/* space.c: the node of a page in use. */
unsigned near__node_of(uint32_t page);

/* large.c: blocks of whole pages. NULL: no memory, and an old block stays. */
void *near__large_alloc(size_t size, size_t align, bool *zero);
void near__large_free(uint64_t block);
size_t near__large_size(uint64_t block);
void *near__large_resize(void *p, size_t size);
struct near__large_stats {
	uint64_t taken, freed; /* blocks, so far */
	uint64_t pages;        /* in use */
};
extern struct near__large_stats near__large_stats __attribute__((visibility("hidden")));

#endif
