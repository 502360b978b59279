/* SPDX-License-Identifier: MIT */
/* blocks: what the tests of the allocator hold of it. Each block is filled with a text of its own,
 * which is checked before it is given up: a block that two have, that is moved wrongly or written
 * to behind its holder's back, is seen.
 *
 * Nothing here is kept in memory of the allocator but the blocks. Faults end the process, also the
 * child of a vfork. */
#ifndef NEARCPU_TESTS_BLOCKS_H
#define NEARCPU_TESTS_BLOCKS_H

#include "unit.h"

struct block {
	unsigned char *p; /* NULL: none */
	size_t size;
	uint64_t seed; /* of what is in it */
};

/* Where blocks pass from thread to thread: one at a time looks at a shelf. */
struct shelf {
	struct block block;
	uint32_t busy;
};

/* A size as programs ask for them: mostly small, now and then up to 2 MiB, seldom 16 MiB. */
size_t blocks_size(uint64_t *random);
extern bool blocks_slow; /* to be set on an emulated machine: fewer large ones */

/* By any of the functions that allocate. */
struct block blocks_alloc(uint64_t *random);
struct block blocks_alloc_size(uint64_t *random, size_t size);
void blocks_check(const struct block *b);
void blocks_free(struct block *b);
void blocks_resize(struct block *b, uint64_t *random);

/* Exchanges *b with what is on the shelf; nothing if somebody else is there. False then. */
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
