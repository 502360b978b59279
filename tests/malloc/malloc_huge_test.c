/* SPDX-License-Identifier: MIT */
/* All of the heap: 16 TiB, or an eighth of the address space. Hardly any of it is touched, so it
 * takes a machine that gives more address space than it has memory; up to the last number of a
 * page, everything goes on as it did before. */
#include "blocks.h"
#include "use.h"

#include <sys/prctl.h>
#include <sys/sysinfo.h>

#include "malloc/base/heap.h"

#define LEAST (2 * GB) /* a block: below it they would be too many */

static void skip_because(const char *why)
{
	print_message("%s\n", why);
	_exit(77);
}

/* The kernel refuses a mapping that is larger than all memory. */
static size_t block_size(void)
{
	struct sysinfo info;
	size_t memory, size = 8 * GB;

	CHECK(sysinfo(&info) == 0);
	memory = (info.totalram + info.totalswap) * info.mem_unit;
	while (size > memory / 2)
		size /= 2;
	return size;
}

static bool is_limited(void)
{
	struct rlimit as, data;

	CHECK(getrlimit(RLIMIT_AS, &as) == 0 && getrlimit(RLIMIT_DATA, &data) == 0);
	return kernel_number("/proc/sys/vm/overcommit_memory", "", 2) == 2 ||
	       as.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY;
}

/* Down to whole pages: what is left is less than the smallest of them. */
static struct chain *take_all(size_t size, size_t *total)
{
	struct chain *all = NULL;

	for (*total = 0; size >= 128 * KB; size /= 2)
		*total += size * chain_take_all(&all, size);
	for (struct chain *p = all; p; p = p->next) {
		CHECK(malloc_usable_size(p) >= p->size && (uintptr_t)p > near__heap.base);
		CHECK(near__offset_of(p) + p->size <= near__heap.size);
	}
	return all;
}

/* Takes the highest of the blocks of this size out of the list. */
static struct chain *highest(struct chain **all, size_t size)
{
	struct chain **at = NULL, *best;

	for (struct chain **p = all; *p; p = &(*p)->next)
		if ((*p)->size == size && (!at || *p > *at))
			at = p;
	CHECK(at);
	best = *at;
	*at = best->next;
	return best;
}

/* ---- at the end of the heap ---- */

#define BLOCKS 300

/* Works on blocks with checked content in what has become free. */
static void go_on(void)
{
	static struct block blocks[BLOCKS];
	static struct shelf shelf;
	struct holder holder = {blocks, BLOCKS, &shelf, 1, 3};
	uint64_t top = 0;

	for (unsigned n = unit_scale(20000); n-- > 0;) {
		holder_step(&holder);
		for (unsigned i = 0; i < BLOCKS; i++) {
			uint64_t offset = blocks[i].p ? near__offset_of(blocks[i].p) : 0;

			CHECK(offset + (offset ? blocks[i].size : 0) <= near__heap.size);
			top = offset > top ? offset : top;
		}
		if (n % 1000 == 0)
			malloc_trim(0);
	}
	CHECK(top > near__heap.size / 2);
	holder_let_go(&holder);
	blocks_free(&shelf.block);
	malloc_trim(0);
}

static void exhaust(void *unused)
{
	size_t size, total;
	struct chain *all, *last;

	if (is_limited())
		skip_because("address space or overcommit is limited here");
	if ((size = block_size()) < LEAST)
		skip_because("there is too little memory for large mappings here");
	/* Huge pages would give 2 MiB to each word that is written. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	all = take_all(size, &total);
	CHECK(total > near__heap.size / 1000 * 999 - size);
	last = highest(&all, size);
	CHECK(near__offset_of(last) > near__heap.size - 2 * size);
	CHECK_REFUSED(realloc(last, 2 * size));
	free(last); /* the only room that there is */
	go_on();
	CHECK(take_all(size, &total) && total >= size / 2);
}

UNIT_TEST(all_of_it_can_be_had, unit_in_child(exhaust, NULL))

/* What is promised: an eighth of the address space, whose end the stack shows, or so. */
static void the_heap_is_large(void **state)
{
	uint64_t eighth = ((uint64_t)__builtin_frame_address(0) + (GB - 1)) / 8;

	if (unit_emulated())
		skip(); /* it decides what is where */
	assert_true(near__heap.size >= (eighth < 16 * TB ? eighth / 2 : 16 * TB - 4 * GB));
}

int main(void)
{
	free(malloc(1)); /* the heap begins */
	return UNIT_TESTS(the_heap_is_large, all_of_it_can_be_had);
}
