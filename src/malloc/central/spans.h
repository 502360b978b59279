/* SPDX-License-Identifier: MIT */
/* spans: runs of pages that are divided into blocks of one class, with a bit for each block that is
 * in the span. The caller holds the lock of the spans, unless a comment excludes it. */
#ifndef NEARCPU_MALLOC_SPANS_H
#define NEARCPU_MALLOC_SPANS_H

#include "malloc/base/heap.h"

#define NEAR__QUARTERS 4

struct near__span {
	uint32_t first;  /* page */
	uint32_t number; /* of this descriptor */
	uint32_t next, previous;
	uint16_t here;   /* blocks in the span: bits that are set */
	uint16_t carved; /* blocks that ever left */
	uint8_t class;
	uint8_t quarter; /* the list that it is in, NEAR__QUARTERS: none */
	bool untouched;  /* its pages were, when it began: so are blocks that never left */
	/* Pages of blocks in the span were returned to the system. A thread that takes such a block
	 * has the lock after the thread that returned them. */
	bool discarded;
	uint64_t bits[];
};

/* Those of one class on one node. */
struct near__spans {
	uint32_t lists[NEAR__QUARTERS]; /* spans with blocks, by their number, the fewest first */
	uint32_t spare;                 /* descriptors without a span */
	uint32_t cursor;                /* what near__spans_next returns next; 0: the end */
	uint64_t out;                   /* blocks that are not in their spans */
	uint64_t count, carved;         /* spans; blocks of these that were ever used */
};

/* The span of a block. Without the lock: it exists as long as one of its blocks is out. */
static inline struct near__span *near__span_of(const void *p)
{
	return near__meta_at(near__heap.owner[near__page_of(p)]);
}

/* The offset of the block around an offset. Without the lock. */
uint64_t near__span_block(uint64_t offset);

/* Takes up to `wanted` blocks, of which the first `fresh` were never used. 0: there is no span with
 * blocks. A link in a block of this size or more is the first write to a page as often as not, and
 * malloc would take the page fault: such blocks leave an untouched span one at a time. */
#define NEAR__ALONE 1024
unsigned near__spans_take(struct near__spans *all, char **blocks, unsigned wanted, unsigned *fresh);

/* Returns n blocks of the span. If all blocks of the span are in it then, the span leaves all
 * lists, and is returned: for near__spans_free without the lock, then near__spans_keep. */
struct near__span *near__spans_give(struct near__spans *all, struct near__span *s,
				    char *const *blocks, unsigned n);

/* Takes an unused descriptor, NULL: there is none; keeps one. */
struct near__span *near__spans_spare(struct near__spans *all);
void near__spans_keep(struct near__spans *all, struct near__span *s);

/* Without the lock: `s` is a spare descriptor or NULL. NULL: no memory. */
struct near__span *near__span_begin(struct near__span *s, unsigned class);

/* Without the lock: the pages from `first` on become the span's pages. Tags follow as blocks leave
 * it. */
void near__span_place(struct near__span *s, uint32_t first);

/* Puts it into the list for its number of blocks. */
void near__spans_add(struct near__spans *all, struct near__span *s);

/* Without the lock: frees the pages of spans of one class and node. */
#define NEAR__SPANS_AT_ONCE 32
void near__spans_free(struct near__span *const *spans, unsigned n);

/* One walk at a time. The cursor begins at the first span of a quarter; near__spans_next returns
 * the span at the cursor, which goes on, NULL: none. Spans that enter a list during the walk are
 * not visited. */
void near__spans_begin(struct near__spans *all, unsigned quarter);
struct near__span *near__spans_next(struct near__spans *all);

/* The most blocks that a span has. */
#define NEAR__MOST_OBJECTS 2048

/* Some blocks of a span, a bit for each. */
struct near__held {
	unsigned n;
	uint64_t bits[NEAR__MOST_OBJECTS / 64];
};

/* Takes all blocks that are in the span. */
void near__span_hold(struct near__spans *all, struct near__span *s, struct near__held *held);

/* Without the lock: returns pages to the system that have no other blocks than these. Returns how
 * many bytes. */
size_t near__span_discard(struct near__span *s, const struct near__held *held);

/* Returns the blocks; the result is that of near__spans_give. */
struct near__span *near__span_release(struct near__spans *all, struct near__span *s,
				      const struct near__held *held);

#endif
