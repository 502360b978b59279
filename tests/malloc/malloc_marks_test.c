/* SPDX-License-Identifier: MIT */
/* What a program's madvise, mprotect and mlock leave on a block does not apply to the blocks that
 * are made of its pages later; and pages that come back after they were returned are returned
 * again. */
#define _GNU_SOURCE
#include "use.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/page.h"
#include "malloc/base/os.h"
#include "malloc/pages/node.h"
#include "malloc/pages/marks.h"
#include "malloc/pages/pages.h"

#define PAGE near__page_size() /* in which marks count */
#define SIZE (2 * MB)

enum mark { DONT_FORK, WIPE_ON_FORK, DONT_DUMP, NO_ACCESS, READ_ONLY, LOCKED, MARKS };

static int leave(char *p, size_t size, enum mark mark)
{
	switch (mark) {
	case DONT_FORK:
		return madvise(p, size, MADV_DONTFORK);
	case WIPE_ON_FORK:
		return madvise(p, size, 18 /* MADV_WIPEONFORK */);
	case DONT_DUMP:
		return madvise(p, size, MADV_DONTDUMP);
	case NO_ACCESS:
		return mprotect(p, size, PROT_NONE);
	case READ_ONLY:
		return mprotect(p, size, PROT_READ);
	default:
		return mlock(p, size);
	}
}

/* Those that the block is in, or a part of it: other threads of the process map memory, too. */
static unsigned mappings_of(const char *block)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uintptr_t begin, end;
	unsigned n = 0;

	CHECK(f);
	while (fscanf(f, "%" SCNxPTR "-%" SCNxPTR "%*[^\n]", &begin, &end) == 2)
		n += begin < (uintptr_t)block + SIZE && end > (uintptr_t)block;
	fclose(f);
	return n;
}

static char *make(size_t size)
{
	char *p = aligned_alloc(PAGE, size);

	CHECK(p);
	return memset(p, 1, size);
}

/* Blocks of which at least one has the pages of the old one can be written, and a child has what is
 * in them. */
static void use_again(const char *old, size_t size)
{
	char *blocks[8];
	bool found = false;

	for (unsigned i = 0; i < LENGTH(blocks); i++) {
		blocks[i] = make(size);
		found |= blocks[i] < old + size && old < blocks[i] + size;
	}
	CHECK(found);
	IN_CHILD()
		for (unsigned i = 0; i < LENGTH(blocks); i++)
			for (size_t at = 0; at < size; at += PAGE)
				CHECK(blocks[i][at]++ == 1);
	for (unsigned i = 0; i < LENGTH(blocks); i++)
		free(blocks[i]);
}

static void marks_end_with_the_block(void **state)
{
	char *first = make(SIZE);

	leave(first, PAGE, NO_ACCESS); /* makes the table */
	free(first);
	for (enum mark mark = 0; mark < MARKS; mark++) {
		/* Of all of the block, of its last page, of one in the middle. */
		const size_t ranges[][2] = {{0, SIZE}, {SIZE - PAGE, PAGE}, {SIZE / 2, PAGE}};

		for (unsigned i = 0; i < LENGTH(ranges); i++) {
			char *volatile p = make(SIZE);
			unsigned before = mappings_of(p);

			if (leave(p + ranges[i][0], ranges[i][1], mark)) {
				free(p); /* an emulator, a limit of locked memory */
				continue;
			}
			free(p);
			use_again(p, SIZE);
			assert_true(mappings_of(p) <= before);
		}
	}
	assert_int_equal(kernel_number("/proc/self/status", "VmLck:", 0), 0);
}

/* A block that grows takes its pages with it, and their marks. */
static void marks_move_with_the_pages(void **state)
{
	char *volatile p = make(SIZE), *volatile next = make(SIZE), *volatile q;

	if (madvise(p, SIZE, MADV_DONTFORK))
		skip();
	q = realloc(p, 8 * SIZE);
	assert_non_null(q);
	assert_int_equal(q[SIZE - 1], 1);
	free(q);
	use_again(q, SIZE);
	use_again(p, SIZE);
	free(next);
}

/* Small blocks: when their span is free, which no other block of their size is in. */
static void marks_end_with_the_span(void **state)
{
	static char *blocks[200];
	size_t small = (40 * KB + PAGE - 1) & ~(PAGE - 1);

	for (unsigned i = 0; i < LENGTH(blocks); i++)
		blocks[i] = make(small);
	for (unsigned i = 0; i < LENGTH(blocks); i++)
		if (madvise(blocks[i], small, MADV_DONTFORK))
			skip();
	for (unsigned i = 0; i < LENGTH(blocks); i++)
		free(blocks[i]);
	malloc_trim(0);
	for (unsigned i = 0; i < LENGTH(blocks); i++)
		blocks[i] = make(small);
	IN_CHILD()
		for (unsigned i = 0; i < LENGTH(blocks); i++)
			CHECK(blocks[i][0]++ == 1);
	for (unsigned i = 0; i < LENGTH(blocks); i++)
		free(blocks[i]);
}

/* A program that gives it for each of its blocks finds their pages again. */
static void advice_about_huge_pages_stays(void **state)
{
	char *p = make(SIZE);
	uint32_t first = near__page_of(p);

	madvise(p, SIZE, MADV_HUGEPAGE);
	madvise(p, SIZE, MADV_NOHUGEPAGE);
	assert_false(near__marks_has(first, SIZE / NEAR__PAGE));
	free(p);
}

/* RLIMIT_AS leaves room for what is used. */
static void mark_with_little_room(void *unused)
{
	size_t size = (size_t)kernel_number("/proc/self/status", "VmSize:", 0) << 10;
	struct rlimit limit = {size + 64 * MB, size + 64 * MB};
	char *p = make(SIZE);

	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	CHECK(madvise(p, SIZE, MADV_DONTFORK) == 0);
	CHECK(near__marks_has(near__page_of(p), SIZE / NEAR__PAGE));
	free(p);
	CHECK(!near__marks_has(near__page_of(p), SIZE / NEAR__PAGE));
	CHECK(malloc(32 * MB));
	(void)unused;
}

static void bits_take_little_room(void **state)
{
	if (madvise(make(SIZE), SIZE, MADV_NORMAL))
		skip();
	unit_in_child(mark_with_little_room, NULL);
}

static void other_memory_is_left_alone(void **state)
{
	char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	p[PAGE] = 5;
	assert_int_equal(mprotect(p, PAGE, PROT_NONE), 0);
	assert_int_equal(mprotect(p, PAGE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(p[PAGE], 5);
	munmap(p, 4 * PAGE);
	errno = 0;
	assert_int_equal(mprotect(p + 1, PAGE, PROT_READ), -1);
	assert_int_equal(errno, EINVAL);
	if (unit_emulated()) /* it takes any advice */
		return;
	errno = 0;
	assert_int_equal(madvise(p, PAGE, 12345), -1);
	assert_int_equal(errno, EINVAL);
}

/* ---- pages that come back ---- */

#define MORE (SIZE + PAGE) /* than an area of 2 MiB: a part of one has another block */

/* Returned pages between two blocks, MORE of them. What khugepaged would do: they are resident
 * again, and the allocator does not know. */
static char *make_resident(char **before, char **after)
{
	static char *blocks[64];
	unsigned at = 0;
	char *volatile p;

	/* Neighbours, by their addresses: earlier blocks fill what is free elsewhere. */
	for (unsigned i = 0; i < LENGTH(blocks); i++)
		blocks[i] = make(MORE);
	while (at + 2 < LENGTH(blocks) &&
	       (blocks[at + 1] != blocks[at] + MORE || blocks[at + 2] != blocks[at] + 2 * MORE))
		at++;
	*before = blocks[at];
	*after = blocks[at + 2 < LENGTH(blocks) ? at + 2 : at + 1];
	for (unsigned i = 0; i < LENGTH(blocks); i++)
		if (i != at && i != at + 2)
			free(blocks[i]);
	p = *before + MORE;
	malloc_trim(0);
	if (at + 2 == LENGTH(blocks) || resident_bytes(p, MORE))
		return NULL;
	for (size_t n = 0; n < MORE; n += PAGE)
		((volatile char *)p)[n] = 0;
	CHECK(resident_bytes(p, MORE) == MORE);
	return p;
}

static void trim_returns_what_came_back(void **state)
{
	char *before, *after, *p = make_resident(&before, &after);

	if (!p)
		skip();
	malloc_trim(0);
	assert_int_equal(resident_bytes(p, MORE), 0);
	assert_int_equal(before[MORE - 1] + after[0], 2);
	free(before);
	free(after);
}

static void the_decay_returns_what_came_back(void **state)
{
	char *before, *after, *p = make_resident(&before, &after);

	if (!p || PAGE > NEAR__PAGE) /* areas are larger there: they are not searched */
		skip();
	/* More often than the areas of the heap need: a call does nothing while the background
	 * thread has the lock, which may have lost its CPU to others for seconds. */
	for (unsigned n = 0; n < 40000 && resident_bytes(p, MORE); n++, usleep(1000))
		near__pages_purge_areas(64);
	assert_int_equal(resident_bytes(p, MORE), 0);
	free(before);
	free(after);
}

/* The block is marked in two pieces, and cut in the middle of the second: the pages without tags
 * there are in use. What their `owner` says is of an earlier run. */
static void a_block_that_grew_and_was_cut_is_in_use(void **state)
{
	enum { BEGAN = 2048, GREW = 7008, STAYS = 5008 };
	char *volatile p = make(BEGAN * NEAR__PAGE), *q = realloc(p, GREW * NEAR__PAGE);
	uint32_t first = near__page_of(q), used = near__pages_used();

	if (q != p)
		skip();
	assert_ptr_equal(realloc(q, STAYS * NEAR__PAGE), q);
	memset(q, 1, STAYS * NEAR__PAGE);
	for (uint32_t i = BEGAN; i < STAYS; i++)
		near__heap.owner[first + i] = UINT32_MAX;
	near__dirty_set(first, STAYS, false);
	for (uint32_t pages = 0; pages < 2 * used + 4096; pages += 64 * 512)
		near__pages_purge_areas(64);
	malloc_trim(0);
	for (size_t at = 0; at < STAYS * NEAR__PAGE; at += NEAR__PAGE)
		assert_int_equal(q[at], 1);
	free(q);
}

UNIT_MAIN_PINNED(marks_end_with_the_block, marks_move_with_the_pages, marks_end_with_the_span,
		 advice_about_huge_pages_stays, bits_take_little_room, other_memory_is_left_alone,
		 trim_returns_what_came_back, the_decay_returns_what_came_back,
		 a_block_that_grew_and_was_cut_is_in_use)
