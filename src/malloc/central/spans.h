/* SPDX-License-Identifier: MIT */
/* spans: runs of pages cut into blocks of one class, with a bit for each block that is here. The
 * caller holds the lock of the spans, where nothing else is said. */
#ifndef NEARCPU_MALLOC_SPANS_H
#define NEARCPU_MALLOC_SPANS_H

#include "malloc/base/heap.h"

#define NEAR__QUARTERS 4

struct near__span {
	uint32_t first;  /* page */
	uint32_t number; /* of this descriptor */
	uint32_t next, previous;
	uint16_t here;   /* blocks that are here: bits that are set */
	uint16_t carved; /* blocks that ever left */
	uint8_t class;
	uint8_t quarter; /* the list that it is in, NEAR__QUARTERS: none */
	uint64_t bits[];
};

/* Those of one class on one node. */
struct near__spans {
	uint32_t lists[NEAR__QUARTERS]; /* with blocks here, by how many, the fewest first */
	uint32_t spare;                 /* descriptors without a span */
	uint32_t cursor;                /* what near__spans_next returns next; 0: the end */
	uint64_t out;                   /* blocks that are elsewhere */
	uint64_t count, carved;         /* spans; blocks of these that were ever used */
};

/* The span of a block. Needs no lock: it lives as long as one of its blocks is elsewhere. */
static inline struct near__span *near__span_of(const void *p)
{
	return near__meta_at(near__heap.owner[near__page_of(p)]);
}

/* The beginning of the block that p points into. Needs no lock either. */
void *near__span_block(const void *p);

/* Whether the block is in its span, so that nobody has it. Needs no lock either: the bit of a block
 * in use is 0, and stays so. */
bool near__span_has(const void *p);

/* Takes up to `wanted` blocks, of which the first `fresh` were never used. 0: there is no span with
 * blocks. */
unsigned near__spans_take(struct near__spans *all, char **blocks, unsigned wanted, unsigned *fresh);

/* Gives the block back. If nothing of its span is elsewhere any more, the span leaves all lists and
 * is returned: for near__span_free without the lock, then near__spans_keep. */
struct near__span *near__spans_give(struct near__spans *all, struct near__span *s, char *p);

/* A descriptor that is not in use, NULL: there is none; and what takes it back. */
struct near__span *near__spans_spare(struct near__spans *all);
void near__spans_keep(struct near__spans *all, struct near__span *s);

/* Without the lock: `s` is a spare descriptor or NULL. NULL: no memory. */
struct near__span *near__span_begin(struct near__span *s, unsigned class);

/* Without the lock: the pages from `first` on become the span's. */
void near__span_place(struct near__span *s, uint32_t first);

/* Then it enters the lists. */
void near__spans_add(struct near__spans *all, struct near__span *s);

/* Without the lock: gives the pages back. */
void near__span_free(const struct near__span *s);

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

/* Takes all blocks of the span that are here. */
void near__span_hold(struct near__spans *all, struct near__span *s, struct near__held *held);

/* Without the lock: gives the pages back to the system that have no other blocks than these.
 * Returns how many bytes. */
size_t near__span_discard(const struct near__span *s, const struct near__held *held);

/* Gives the blocks back; returns as near__spans_give. */
struct near__span *near__span_release(struct near__spans *all, struct near__span *s,
				      const struct near__held *held);

#endif
