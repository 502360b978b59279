/* SPDX-License-Identifier: MIT */
/* central: per node and class, batches that move between slots, and the spans. */
#ifndef NEARCPU_MALLOC_CENTRAL_H
#define NEARCPU_MALLOC_CENTRAL_H

#include "malloc/base/heap.h"

bool near__central_init(void);
/* How many blocks a list should have: a batch; fewer of large blocks in a small heap. */
unsigned near__central_batch(unsigned class);
/* A list of at most `most` blocks, or a batch that was given away. An empty one: no memory. */
uint64_t near__central_take(unsigned class, unsigned most);
/* The same; or, with an empty list, a block that nobody has written to, and that has no link. */
uint64_t near__central_fetch(unsigned class, unsigned most, void **untouched);
void near__central_give(unsigned class, uint64_t list);
/* Gives away the blocks of other nodes than this one; returns the others. */
uint64_t near__central_send_home(unsigned class, uint64_t list);
/* spans.c: stops the program if the block is free already: in its span, or in a free run of
 * pages. */
void near__refuse_freed(unsigned class, uint64_t block);
/* Called before `pages` are allocated: if the heap would grow, lists in chains return to their
 * spans. Without locks. */
void near__central_make_room(unsigned node, uint32_t pages, uint32_t align);
/* Gives batches to the spans: all, or those that no slot needed since the last call. */
void near__central_decay(bool all);
/* Returns the pages of free blocks to the system, in spans of which other blocks are in use.
 * Returns how many bytes. */
size_t near__central_discard(void);
struct near__central_stats {
	uint64_t out;             /* blocks that are in no span */
	uint64_t spans, carved;   /* carved: blocks of these that were ever used */
	uint64_t refills, spills; /* lists, so far */
	uint64_t waiting;         /* blocks in batches, now */
};
void near__central_stats(unsigned class, struct near__central_stats *out);
void near__central_fork(near__fork_step *step);

/* single.c: classes whose spans have one block, and need no descriptor. */
static inline bool near__is_single(unsigned class)
{
	return near__sizes[class].objects == 1;
}

unsigned near__single_batch(unsigned class);
/* A list of at most `most` blocks, and at most a batch; in a small heap of one block. An empty one:
 * no memory. */
uint64_t near__single_take(unsigned node, unsigned class, unsigned most);
void near__single_give(unsigned class, uint64_t list);
void near__single_stats(unsigned class, struct near__central_stats *out);

#endif
