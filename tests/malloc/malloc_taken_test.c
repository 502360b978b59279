/* SPDX-License-Identifier: MIT */
/* Threads whose rseq registration another part of the program has taken away: malloc must not hand
 * out a block twice. They have the concurrency id 0 for good, as the thread that really has it. */
#include <stdlib.h>

#include "live.h"
#include "taken.h"
#include "team.h"

#define BLOCKS 64
#define ROUNDS 2000

static void fill(uint64_t **blocks, uint64_t mark)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(40);
		CHECK(blocks[i]);
		*blocks[i] = mark + i;
	}
}

static void empty(uint64_t **blocks, uint64_t mark)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		CHECK(*blocks[i] == mark + i);
		free(blocks[i]);
	}
}

static void allocate(unsigned number)
{
	uint64_t *blocks[BLOCKS], mark = (uint64_t)number << 32;

	for (int round = 0; round < ROUNDS; round++) {
		fill(blocks, mark);
		if (round == 10 && number % 2 && is_live())
			taken_away();
		empty(blocks, mark);
	}
}

static void each_block_has_one_owner(void **state)
{
	team_run(6, allocate);
}

UNIT_MAIN(each_block_has_one_owner)
