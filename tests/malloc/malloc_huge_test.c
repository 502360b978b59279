/* SPDX-License-Identifier: MIT */
/* All of the heap: 16 TiB, or an eighth of the address space. Hardly any of it is touched, so it
 * takes a machine that gives more address space than it has memory; up to the last number of a
 * page, everything goes on as it did before. */
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
static struct {
	unsigned char *p;
	size_t size;
} blocks[BLOCKS];
static uint64_t seed = 3;

static void fill(unsigned i, size_t size)
{
	blocks[i].size = size;
	memset(blocks[i].p, (int)i, size < 200 ? size : 200);
	blocks[i].p[size - 1] = (unsigned char)i;
}

static void check(unsigned i, size_t size)
{
	for (size_t k = 0; k < size && k < 200; k++)
		CHECK(blocks[i].p[k] == (unsigned char)i);
}

static void change(unsigned i, size_t size, unsigned what)
{
	unsigned char *p = blocks[i].p;
	size_t had = blocks[i].size;

	if (p && what % 2) {
		check(i, had);
		CHECK(p[had - 1] == (unsigned char)i);
		free(p);
		blocks[i].p = NULL;
		return;
	}
	if (p) {
		p = realloc(p, size);
		CHECK(p);
		blocks[i].p = p;
		check(i, had < size ? had : size);
	} else {
		p = what % 4 ? calloc(1, size) : memalign((size_t)64 << what % 9, size);
		CHECK(p);
		CHECK(what % 4 == 0 || (p[0] == 0 && p[size / 2] == 0 && p[size - 1] == 0));
		blocks[i].p = p;
	}
	CHECK(near__offset_of(p) + size <= near__heap.size);
	fill(i, size);
}

static void go_on(void)
{
	uint64_t top = 0;

	for (unsigned n = unit_scale(20000); n-- > 0;) {
		unsigned i = unit_random(&seed) % BLOCKS, what = unit_random(&seed) % 1000;
		size_t size = 1 + (size_t)(unit_random(&seed) % 4000) * (what % 20 ? 1 : 500);

		change(i, size, what / 20);
		if (blocks[i].p && near__offset_of(blocks[i].p) > top)
			top = near__offset_of(blocks[i].p);
		if (n % 1000 == 0)
			malloc_trim(0);
	}
	CHECK(top > near__heap.size / 2);
	for (unsigned i = 0; i < BLOCKS; i++)
		free(blocks[i].p);
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
	errno = 0;
	CHECK(!realloc(last, 2 * size) && errno == ENOMEM);
	free(last); /* the only room that there is */
	go_on();
	CHECK(take_all(size, &total) && total >= size / 2);
}

static void all_of_it_can_be_had(void **state)
{
	unit_in_child(exhaust, NULL);
}

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
