/* SPDX-License-Identifier: MIT */
/* blocks: blocks with checked content, for the tests of the allocator. Each block is filled with a
 * text of its own, which is checked before the block is freed or moved: a block that two threads
 * have, that is moved wrongly, or that another thread writes, is detected.
 *
 * Only the blocks are in memory of the allocator. Faults end the process, also the child of a
 * vfork. */
#ifndef NEARCPU_TESTS_BLOCKS_H
#define NEARCPU_TESTS_BLOCKS_H

#include "unit.h"

struct block {
	unsigned char *p; /* NULL: none */
	size_t size;
	uint64_t seed; /* of what is in it */
};

/* Passes blocks from thread to thread: one thread at a time uses a shelf. */
struct shelf {
	struct block block;
	uint32_t busy;
};

extern bool blocks_slow; /* to be set on an emulated machine: fewer large ones */

void blocks_free(struct block *b);

/* Exchanges *b with the block on the shelf. False: another thread is using it. */
bool shelf_exchange(struct shelf *s, struct block *b);

/* One random step with an array of blocks and the shelves. */
struct holder {
	struct block *blocks;
	unsigned n;
	struct shelf *shelves;
	unsigned n_shelves;
	uint64_t random;
};
void holder_step(struct holder *h);
void holder_let_go(struct holder *h);

#endif
