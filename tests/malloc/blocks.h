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

/* A size as in programs: mostly small, sometimes up to 2 MiB, rarely 16 MiB. */
size_t blocks_size(uint64_t *random);
extern bool blocks_slow; /* to be set on an emulated machine: fewer large ones */

/* By any of the functions that allocate. */
struct block blocks_alloc(uint64_t *random);
struct block blocks_alloc_size(uint64_t *random, size_t size);
void blocks_check(const struct block *b);
void blocks_free(struct block *b);
void blocks_resize(struct block *b, uint64_t *random);

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
