/* SPDX-License-Identifier: MIT */
/* Mappings of other code in the address space of the heap and of its tables: allocation goes on
 * elsewhere, and the mappings stay as they are. Each test has a heap of its own, in a child; all
 * run with one node, and then with three nodes that the machine seems to have. */
#define _GNU_SOURCE
#include "use.h"

#include <sys/mman.h>

#include "base/page.h"
#include "base/topology.h"
#include "kernel/hint.h"
#include "malloc/base/heap.h"
#include "malloc/pages/pages.h"
#include "nearcpu/malloc.h"

#define NODES "NEAR_TEST_NODES"
#define OCCUPIED "NEAR_TEST_OCCUPIED"
#define PAGE near__page_size() /* in which other code maps */
#define OTHERS 0x5a            /* what other code writes */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static unsigned here;               /* the node that this thread runs on */
static unsigned calls;              /* of mmap */
static const void *preferred_start; /* the last memory that got a node's policy */
static unsigned preferred_node;

unsigned __wrap_near__topology_nodes(void);
void __wrap_near__where(unsigned *cpu, unsigned *node);
void __wrap_near__topology_prefer(void *start, size_t size, unsigned node);
void *__wrap_mmap(void *p, size_t size, int protection, int flags, int fd, off_t at);
void *__real_mmap(void *p, size_t size, int protection, int flags, int fd, off_t at);
void *__wrap_mremap(void *from, size_t size, size_t larger, int flags, void *to);
void *__real_mremap(void *from, size_t size, size_t larger, int flags, void *to);

unsigned __wrap_near__topology_nodes(void)
{
	return getenv(NODES) ? 3 : 1;
}

void __wrap_near__where(unsigned *cpu, unsigned *node)
{
	*cpu = 0;
	*node = here;
}

void __wrap_near__topology_prefer(void *start, size_t size, unsigned node)
{
	preferred_start = start;
	preferred_node = node;
}

/* OCCUPIED: the number of the first of two calls for memory that fail. */
void *__wrap_mmap(void *p, size_t size, int protection, int flags, int fd, off_t at)
{
	const char *number = getenv(OCCUPIED);
	static int writable;

	calls++;
	writable += protection != PROT_NONE;
	if (number && writable >= atoi(number) && writable < atoi(number) + 2 &&
	    protection != PROT_NONE) {
		errno = EEXIST;
		return MAP_FAILED;
	}
	return __real_mmap(p, size, protection, flags, fd, at);
}

/* ---- mappings of other code ---- */

static bool map(void *p, size_t size, int protection)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	void *at = __real_mmap(p, size, protection, flags, -1, 0);

	if (at != MAP_FAILED && at != p)
		munmap(at, size);
	return at == p;
}

/* Maps one page at p or, if something is there, beyond it. */
static char *map_page(void *p, ptrdiff_t step)
{
	char *page = (char *)((uintptr_t)p & ~(PAGE - 1));

	for (unsigned i = 0; i < 100000; i++, page += step)
		if (map(page, PAGE, PROT_READ | PROT_WRITE))
			return memset(page, OTHERS, PAGE);
	CHECK(!"nothing can be mapped");
	return NULL;
}

static void check_page(const char *page)
{
	for (size_t i = 0; i < PAGE; i++)
		CHECK(page[i] == OTHERS);
}

/* ---- allocation ---- */

static bool overlaps(const char *p, size_t size, const char *page)
{
	return page && p < page + PAGE && page < p + size;
}

/* Large and small blocks, all of which must be had, and none on `page`. Returns the end of the
 * highest one. */
static char *take(unsigned large, unsigned small, const char *page)
{
	static const size_t sizes[] = {16, 100, 1000, 5000, 40000};
	char *top = NULL;

	for (unsigned i = 0; i < large + small; i++) {
		size_t n = i < large ? MB : sizes[i % LENGTH(sizes)];
		char *p = malloc(n);

		CHECK(p && !overlaps(p, n, page));
		CHECK(near__pages_contain(near__offset_of(p)));
		p[0] = p[n - 1] = 1;
		top = p + n > top ? p + n : top;
	}
	return top;
}

static void free_and_take(char *p)
{
	free(p);
	malloc_trim(0);
	take(20, 1000, NULL);
}

/* ---- a page in the way ---- */

static void block_in_the_way(void *unused)
{
	char *page = map_page(take(4, 100, NULL) + MB, MB);
	char *kept = malloc(MB);

	take(200, 20000, page);
	check_page(page);
	CHECK(!near__pages_contain(near__offset_of(page)));
	/* A hole stays one. */
	munmap(page, PAGE);
	take(200, 20000, page);
	CHECK(!near__pages_contain(near__offset_of(page)));
	free_and_take(kept);
}

/* A page of the table that describes what is `distance` beyond the top of the heap. */
static void table_in_the_way(void *name)
{
	struct near__heap *h = &near__heap;
	uint32_t top = near__page_of(take(4, 100, NULL));
	const char *table = name;
	char *page;

	if (strcmp(table, "page map") == 0)
		page = map_page(h->page_map + top, PAGE);
	else if (strcmp(table, "owner") == 0)
		page = map_page(h->owner + top, PAGE);
	else
		page = map_page(h->dirty - top / 64, -(ptrdiff_t)PAGE);
	/* As much as the pages that are committed describe, and more. */
	for (size_t n = 0; n < 150; n++)
		CHECK(malloc(64 * MB));
	take(100, 20000, page);
	check_page(page);
}

static void descriptor_in_the_way(void *unused)
{
	uint32_t number, last = 0;
	size_t used = near__meta_used(), most = 4 * MB;
	char *page = map_page(near__heap.meta.base - used, -(ptrdiff_t)PAGE);

	for (size_t n = 0; n < most; n += 1008) {
		char *p;

		number = near__meta_alloc(1000);
		CHECK(number > last);
		p = near__meta_at(number);
		CHECK(!overlaps(p, 1000, page) && p[0] == 0 && p[999] == 0);
		memset(p, 1, 1000);
		last = number;
	}
	CHECK(near__meta_used() - used < most + 64 * KB); /* without the hole */
	take(100, 20000, page);
	check_page(page);
}

UNIT_TEST(page_among_blocks, unit_in_child(block_in_the_way, NULL))
UNIT_TEST(page_in_page_map, unit_in_child(table_in_the_way, (char[]){"page map"}))
UNIT_TEST(page_in_owner, unit_in_child(table_in_the_way, (char[]){"owner"}))
UNIT_TEST(page_in_dirty, unit_in_child(table_in_the_way, (char[]){"dirty"}))
UNIT_TEST(page_among_descriptors, unit_in_child(descriptor_in_the_way, NULL))

/* ---- many pages, a large mapping ---- */

static void many_in_the_way(void *unused)
{
	static char *pages[64];

	for (unsigned i = 0; i < LENGTH(pages); i++) {
		here = i % near__heap.nodes;
		pages[i] = map_page(take(2, 10, NULL) + MB, MB);
		take(3, 300, pages[i]);
	}
	for (unsigned i = 0; i < LENGTH(pages); i++)
		check_page(pages[i]);
}

UNIT_TEST(many_pages_in_the_way, unit_in_child(many_in_the_way, NULL))

static size_t address_space(void)
{
	return KB * kernel_number("/proc/self/status", "VmSize:", 0);
}

/* As a sandbox of V8. It is passed over by few calls; neither statistics nor limits count it. */
static void large_one_in_the_way(void *unused)
{
	struct near_malloc_stats before, after;
	size_t size = near__heap.size / 16, space;
	char *top = take(4, 100, NULL);
	uintptr_t at = ((uintptr_t)top + 64 * MB) & ~(PAGE - 1);

	if (!map((void *)at, size, PROT_NONE))
		_exit(77);
	near_malloc_stats(&before, sizeof(before));
	space = address_space();
	calls = 0;
	CHECK(take(100, 2000, NULL) > (char *)at + size);
	CHECK(calls < 100);
	near_malloc_stats(&after, sizeof(after));
	CHECK(after.committed - before.committed < 400 * MB);
	CHECK(after.resident - before.resident < 400 * MB);
	CHECK(after.metadata - before.metadata < 40 * MB);
	CHECK(address_space() - space < 400 * MB);
	CHECK(near__pages_used() < 500 * MB / NEAR__PAGE);
}

static void large_mapping_in_the_way(void **state)
{
	if (unit_emulated())
		skip(); /* it decides what is where */
	unit_in_child(large_one_in_the_way, NULL);
}

/* What does not fit in front of a page leaves the rest to blocks that fit. */
static void large_blocks_pass_over(void *unused)
{
	char *top = take(4, 100, NULL), *page = map_page(top + 64 * MB, MB);
	char *p = malloc(100 * MB), *q;

	CHECK(p && !overlaps(p, 100 * MB, page));
	p[0] = p[100 * MB - 1] = 1;
	q = realloc(p, 150 * MB); /* and growth does the same */
	CHECK(q && q[0] == 1 && q[100 * MB - 1] == 1);
	errno = 0;
	CHECK(!malloc(near__heap.size - PAGE) && errno == ENOMEM);
	take(100, 2000, page);
	check_page(page);
	free_and_take(q);
}

UNIT_TEST(large_blocks_go_elsewhere, unit_in_child(large_blocks_pass_over, NULL))

/* ---- a move that fails ---- */

/* The kernel has done nothing, or has unmapped where the block was to move; and other code has
 * mapped a page there. */
static enum failure { NOTHING_DONE, UNMAPPED, LOST } failure;
static char *others; /* that page; NULL: moves do not fail */

void *__wrap_mremap(void *from, size_t size, size_t larger, int flags, void *to)
{
	if (!others)
		return __real_mremap(from, size, larger, flags, to);
	preferred_start = NULL;
	if (failure != NOTHING_DONE)
		munmap(to, larger);
	if (failure == LOST)
		others = map_page((char *)to + size / 2, PAGE);
	errno = ENOMEM;
	return MAP_FAILED;
}

static bool has_policy(const char *p)
{
	return near__heap.nodes == 1 || (preferred_start == p && preferred_node == here);
}

static void move_fails(void *how)
{
	char *p = malloc(4 * MB), *between = malloc(MB), *q;
	uint32_t used;

	CHECK(p && between);
	for (size_t i = 0; i < 4 * MB; i += PAGE)
		p[i] = (char)(i / PAGE);
	failure = *(enum failure *)how;
	others = p;
	used = near__pages_used();
	q = realloc(p, 8 * MB);
	CHECK(q && q != p);
	CHECK(failure != UNMAPPED || has_policy(q));
	for (size_t i = 0; i < 4 * MB; i += PAGE)
		CHECK(q[i] == (char)(i / PAGE));
	CHECK(near__pages_used() - used <= 8 * MB / NEAR__PAGE + 100);
	if (others != p) {
		CHECK(!overlaps(q, 8 * MB, others));
		check_page(others);
	}
	others = NULL;
	free_and_take(q);
}

static void moves_fail(void **state)
{
	for (enum failure how = NOTHING_DONE; how <= LOST; how++)
		unit_in_child(move_fails, &how);
}

/* From another node: not that of the old pages. */
static void move_to_here(void *unused)
{
	char *p = malloc(4 * MB), *between = malloc(MB), *q;

	CHECK(p && between);
	here = near__heap.nodes - 1;
	q = realloc(memset(p, 1, 4 * MB), 8 * MB);
	CHECK(q && q != p && has_policy(q));
}

UNIT_TEST(moved_pages_have_the_policy_of_their_node, unit_in_child(move_to_here, NULL))

/* ---- the first pages ---- */

static void begin_occupied(void *number)
{
	setenv(OCCUPIED, number, 1);
	execl("/proc/self/exe", "malloc_holes_test", (char *)NULL);
	_exit(9);
}

static void first_pages_are_occupied(void **state)
{
	if (unit_emulated())
		skip(); /* /proc/self/exe is for another machine */
	for (char number[] = "1"; number[0] < '9'; number[0]++)
		unit_in_child(begin_occupied, number);
}

int main(int argc, char **argv)
{
	int failed;

	if (kernel_number("/proc/sys/vm/overcommit_memory", "", 2) == 2) {
		print_message("without overcommit large blocks need memory\n");
		return 77;
	}
	CHECK(malloc(1)); /* the heap begins */
	if (getenv(OCCUPIED)) {
		take(20, 2000, NULL);
		return 0;
	}
	if (near__heap.nodes != (getenv(NODES) ? 3 : 1)) {
		print_message("there are %u nodes\n", near__heap.nodes);
		return getenv(NODES) ? 0 : 77; /* slots that belong to no node */
	}
	failed = UNIT_TESTS(page_among_blocks, page_in_page_map, page_in_owner, page_in_dirty,
			    page_among_descriptors, many_pages_in_the_way, large_mapping_in_the_way,
			    large_blocks_go_elsewhere, moves_fail,
			    moved_pages_have_the_policy_of_their_node, first_pages_are_occupied);
	if (failed || getenv(NODES) || unit_emulated())
		return failed;
	setenv(NODES, "3", 1);
	execv("/proc/self/exe", argv);
	return 1;
}
