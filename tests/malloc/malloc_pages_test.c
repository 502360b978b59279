/* SPDX-License-Identifier: MIT */
/* The heap on a system with pages of 64 KiB, larger than its own: blocks keep their content and
 * zero memory is zero when neighbours go back to the system or are moved; what is free goes back by
 * whole pages of the system. */
#include <stdlib.h>
#include <string.h>

#include "malloc/base/heap.h"
#include "malloc/base/os.h"

#define PAGES_SIZE (64u << 10)
#include "pages.h"

#include "blocks.h"
#include "stats.h"

#define BLOCKS 300u

static void it_is_that_system(void **state)
{
	assert_int_equal(near__system_page(), 16);
	assert_int_equal(near__heap.base % PAGES_SIZE, 0);
}

static void blocks_keep_their_content(void **state)
{
	static struct block blocks[BLOCKS];
	static struct shelf shelf;
	struct holder holder = {blocks, BLOCKS, &shelf, 1, 5};

	blocks_slow = unit_slow();
	for (unsigned n = unit_scale(60000); n-- > 0;) {
		holder_step(&holder);
		if (n % 500 == 0)
			malloc_trim(0);
	}
	holder_let_go(&holder);
	blocks_free(&shelf.block);
}

/* Each page of the system has a block, and free memory that was written. The blocks before and
 * behind it stay; a block that takes its place is zero. */
static void free_parts_of_pages_are_zero_or_stay_dirty(void **state)
{
	enum { SIZE = 68 << 10, N = 64 };
	char *all[N], *q;

	for (unsigned i = 0; i < N; i++) {
		CHECK((all[i] = malloc(SIZE)));
		memset(all[i], 'a' + (int)i % 26, SIZE);
	}
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = round; i < N; i += 2)
			free(all[i]);
		malloc_trim(0);
		for (unsigned i = 1 - round; i < N; i += 2)
			for (unsigned k = 0; k < SIZE; k++)
				CHECK(all[i][k] == 'a' + (char)(i % 26));
		for (unsigned i = round; i < N; i += 2) {
			CHECK((all[i] = q = calloc(1, SIZE)));
			for (unsigned k = 0; k < SIZE; k++)
				CHECK(q[k] == 0);
			memset(q, 'a' + (int)i % 26, SIZE);
		}
	}
	for (unsigned i = 0; i < N; i++)
		free(all[i]);
}

/* Also if the last page of it has been in use in part. */
static void what_is_moved_is_whole(void **state)
{
	for (size_t size = 700 * KB; size < 720 * KB; size += 4 * KB) {
		char *p = malloc(size), *wall;

		memset(p, 7, size);
		wall = malloc(MB);
		p = realloc(p, 3 * size);
		for (size_t i = 0; i < size; i++)
			CHECK(p[i] == 7);
		free(wall);
		free(p);
		p = calloc(1, 4 * size);
		for (size_t i = 0; i < 4 * size; i++)
			CHECK(p[i] == 0);
		free(p);
	}
}

static void free_pages_go_back(void **state)
{
	struct near_malloc_stats before, after;
	char *p = malloc(16 * MB);

	memset(p, 1, 16 * MB);
	malloc_trim(0);
	before = stats();
	free(p);
	malloc_trim(0);
	after = stats();
	assert_true(after.given_back - before.given_back >= 16 * MB - 2 * PAGES_SIZE);
	assert_true(after.free_dirty <= before.free_dirty + 2 * PAGES_SIZE);
}

static void valloc_goes_by_the_systems_page(void **state)
{
	char *p = valloc(100), *q = pvalloc(1);

	assert_int_equal((uintptr_t)p % PAGES_SIZE, 0);
	assert_int_equal((uintptr_t)q % PAGES_SIZE, 0);
	assert_true(malloc_usable_size(q) >= PAGES_SIZE);
	free(p);
	free(q);
}

UNIT_MAIN(it_is_that_system, blocks_keep_their_content, free_parts_of_pages_are_zero_or_stay_dirty,
	  what_is_moved_is_whole, free_pages_go_back, valloc_goes_by_the_systems_page)
