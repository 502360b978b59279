/* SPDX-License-Identifier: MIT */
/* Chains of lists: floods of small blocks are kept whole, used again, returned to their spans when
 * other memory is needed or nobody needs them; what a program writes to them is found. */
#include "use.h"

#include "base/page.h"
#include "malloc/base/heap.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/central/central.h"
#include "malloc/central/chains.h"
#include "malloc/pages/pages.h"
#include "team.h"

#define BLOCKS 200000u
#define SIZE 64u
#define CLASS 5u /* of 64 bytes */

static uint64_t *blocks[BLOCKS];

static uint64_t chained(void)
{
	return near__chains_have(NEAR__ANY_CLASS);
}

/* Each block has content of its own. */
static void fill(size_t size)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(size);
		CHECK(blocks[i]);
		for (size_t k = 0; k < size / 8; k++)
			blocks[i][k] = i * 8 + k;
	}
}

static void empty(size_t size)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		for (size_t k = 0; k < size / 8; k++)
			CHECK(blocks[i][k] == i * 8 + k);
		free(blocks[i]);
	}
}

static void flood(size_t size)
{
	fill(size);
	empty(size);
}

/* ---- one thread ---- */

static void floods_are_kept_and_used_again(void **state)
{
	uint32_t used;

	assert_int_equal(near__sizes[CLASS].size, SIZE);
	flood(SIZE);
	assert_true(near__chains_have(CLASS) > 0);
	assert_int_equal(near__chains_have(CLASS), chained());
	used = near__pages_used();
	for (unsigned round = 0; round < 4; round++)
		flood(SIZE);
	assert_true(near__pages_used() <= used + 16);
	for (size_t size = 16; size <= 1024; size *= 2)
		flood(size);
	malloc_trim(0);
	assert_int_equal(chained(), 0);
}

/* Spans whose blocks are all in chains, and no others, have room for other sizes. */
static void they_make_room(void **state)
{
	const size_t sizes[] = {1000, 5000, 200 * KB};
	uint32_t used;

	flood(SIZE);
	used = near__pages_used();
	for (unsigned i = 0; i < LENGTH(sizes); i++) {
		struct chain *list = NULL;

		for (size_t all = 0; all < BLOCKS * SIZE / 2; all += sizes[i]) {
			struct chain *c = malloc(sizes[i]);

			CHECK(c);
			c->next = list;
			list = c;
		}
		assert_int_equal(chained(), 0);
		chain_free(list, 0);
		flood(SIZE);
		assert_true(chained() > 0);
	}
	assert_true(near__pages_used() <= used + used / 4);
}

static void idle_ones_return(void **state)
{
	uint64_t before;

	flood(SIZE);
	before = chained();
	assert_true(before > 0);
	near__central_decay(false); /* nobody needed them since: the last step began before */
	near__central_decay(false);
	assert_true(chained() < before);
	for (unsigned n = 0; n < 100000 && chained() > NEAR__CHAINS; n++)
		near__central_decay(false);
	assert_true(chained() <= NEAR__CHAINS); /* the half of one is none */
	malloc_trim(0);
	assert_int_equal(chained(), 0);
}

static void they_are_part_of_the_cache(void **state)
{
	uint64_t cache = near__malloc_conf.cache;

	malloc_trim(0);
	near__malloc_conf.cache = near__heap.cache_taken + MB;
	flood(SIZE);
	assert_true(near__chains_have(CLASS) > 0);
	assert_true(near__heap.cache_taken <= near__malloc_conf.cache);
	malloc_trim(0);
	near__malloc_conf.cache = 0;
	flood(SIZE);
	assert_int_equal(chained(), 0);
	near__malloc_conf.cache = cache;
}

static void a_child_has_them(void **state)
{
	flood(SIZE);
	IN_CHILD() {
		uint64_t before = chained();

		CHECK(before > 0);
		fill(SIZE);
		CHECK(chained() < before);
		empty(SIZE);
		malloc_trim(0);
		CHECK(chained() == 0);
	}
	flood(SIZE);
}

/* ---- faults ---- */

static size_t word;   /* of each freed block: the link, or the list below; */
static uint64_t flip; /* what the program changes there */

static void write_to_freed(void)
{
	flood(SIZE);
	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i][word] ^= flip;
}

static void use_after_write(void *unused)
{
	write_to_freed();
	fill(SIZE);
}

static void trim_after_write(void *unused)
{
	write_to_freed();
	malloc_trim(0);
}

/* To what is another block, and to what is none. */
static void writes_are_found(void **state)
{
	const uint64_t flips[] = {0x100000, UINT64_C(0x4141414141414100)};
	char text[256];

	for (unsigned i = 0; i < 8; i++) {
		int signal = 0;

		word = i % 2;
		flip = flips[i / 2 % 2];
		assert_int_equal(unit_capture(i / 4 ? use_after_write : trim_after_write, NULL,
					      text, sizeof(text), &signal),
				 -1);
		assert_int_equal(signal, SIGABRT);
		assert_non_null(strstr(text, "write to a freed block"));
	}
}

/* ---- threads ---- */

#define MANY 30000u

/* Each thread's blocks have its number, which nobody else has written. */
static void flood_by_threads(unsigned number)
{
	static __thread uint64_t *own[MANY];
	uint64_t random = number + 1;

	for (unsigned round = 0; round < 8; round++) {
		size_t size = 16 + unit_random(&random) % 100 / 16 * 16;

		for (unsigned i = 0; i < MANY; i++) {
			own[i] = malloc(size);
			CHECK(own[i]);
			own[i][0] = own[i][1] = (uint64_t)number << 32 | i;
		}
		for (unsigned i = 0; i < MANY; i++) {
			CHECK(own[i][0] == ((uint64_t)number << 32 | i) && own[i][0] == own[i][1]);
			free(own[i]);
		}
		if (number == 0)
			malloc_trim(0);
	}
}

static void threads_share_no_block(void **state)
{
	unit_unpin();
	team_run(4, flood_by_threads);
	malloc_trim(0);
	assert_int_equal(chained(), 0);
}

/* On one CPU: the chains of another node do not count. */
UNIT_MAIN_PINNED(floods_are_kept_and_used_again, they_make_room, idle_ones_return,
		 they_are_part_of_the_cache, a_child_has_them, writes_are_found,
		 threads_share_no_block)
