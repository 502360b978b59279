/* SPDX-License-Identifier: MIT */
/* In a large heap a new span of small blocks has its pages from the beginning; blocks that are a
 * large part of a page are not written by malloc. */
#include "malloc/base/lookup.h"
#include "malloc/central/central.h"
#include "malloc/pages/pages.h"
#include "use.h"

#include <sys/resource.h>

#define POPULATE_WRITE 23 /* MADV_POPULATE_WRITE, since Linux 5.14 */

static bool system_populates(void)
{
	void *p =
		mmap(NULL, NEAR__PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can;

	assert_true(p != MAP_FAILED);
	can = madvise(p, NEAR__PAGE, POPULATE_WRITE) == 0 &&
	      resident_bytes(p, NEAR__PAGE) == NEAR__PAGE;
	munmap(p, NEAR__PAGE);
	return can;
}

/* The pages of a new span of blocks of this size that are present when one block was taken. */
static size_t resident_of_new_span(size_t size)
{
	struct near__central_stats before, after;
	unsigned class = near__class_compute(size);
	uint64_t list;

	near__pages_purge(0, SIZE_MAX);
	near__central_stats(class, &before);
	do {
		list = near__central_take(class, 1);
		assert_false(near__list_is_empty(list));
		near__central_stats(class, &after);
	} while (after.spans == before.spans);
	list &= ~(uint64_t)(NEAR__SMALL_SPAN - 1);
	return resident_bytes((void *)(near__heap.base + list), NEAR__SMALL_SPAN);
}

static void only_in_a_large_heap(void **state)
{
	void *volatile p;

	if (!system_populates())
		skip();
	assert_int_equal(resident_of_new_span(16), NEAR__PAGE);
	p = malloc(16 * MB);
	assert_non_null(p);
	assert_int_equal(resident_of_new_span(16), NEAR__SMALL_SPAN);
	assert_int_equal(resident_of_new_span(512), NEAR__SMALL_SPAN);
	assert_int_equal(resident_of_new_span(1024), NEAR__PAGE);
	free(p);
}

#define PAGES 256

static long page_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static void a_new_page_is_one_page_fault(void **state)
{
	unsigned class = near__class_compute(256);
	long before;

	if (unit_emulated())
		skip(); /* of the emulator's faults */
	near__pages_purge(0, SIZE_MAX);
	before = page_faults();
	for (unsigned blocks = 0; blocks < PAGES * NEAR__PAGE / 256; blocks += 16)
		assert_false(near__list_is_empty(near__central_take(class, 16)));
	assert_true(page_faults() - before < PAGES * 3 / 2);
}

#define BLOCKS 64

static void a_new_block_of_a_page_is_not_touched(void **state)
{
	void *blocks[BLOCKS];
	size_t resident = 0;

	if (!near__heap.caches)
		skip();
	near__pages_purge(0, SIZE_MAX);
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(NEAR__PAGE);
		assert_non_null(blocks[i]);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		resident += resident_bytes(blocks[i], NEAR__PAGE);
	/* Some may come from spans or lists that exist already. */
	assert_true(resident < BLOCKS / 2 * NEAR__PAGE);
	for (unsigned i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

int main(void)
{
	free(malloc(1)); /* the heap begins */
	return UNIT_TESTS(a_new_page_is_one_page_fault, only_in_a_large_heap,
			  a_new_block_of_a_page_is_not_touched);
}
