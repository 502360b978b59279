/* SPDX-License-Identifier: MIT */
/* The ends of the heap, of its numbers and of its descriptors, which NUMA nodes share. The
 * allocator is compiled with small limits for this test: a heap of 1 GiB in 8 segments, 512 KiB of
 * descriptors. The machine seems to have three nodes, and the test selects the one that it runs on.
 * */
#include "runs.h"

#include <sys/mman.h>

#include "base/topology.h"
#include "kernel/hint.h"
#include "malloc/pages/node.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define NODES 3u
#define SEGMENT (UINT32_C(1) << 15)
#define GRANULES (8 * SEGMENT)

static unsigned here;     /* the node that this thread runs on */
static size_t room_kept;  /* the most room for descriptors that was requested */
static unsigned searches; /* for the run that has a page */

unsigned __wrap_near__topology_nodes(void);
void __wrap_near__where(unsigned *cpu, unsigned *node);
bool __wrap_near__meta_keep(size_t size);
bool __real_near__meta_keep(size_t size);
uint32_t __wrap_near__runs_with(const struct near__runs *all, uint32_t page, uint32_t least);
uint32_t __real_near__runs_with(const struct near__runs *all, uint32_t page, uint32_t least);

unsigned __wrap_near__topology_nodes(void)
{
	return NODES;
}

void __wrap_near__where(unsigned *cpu, unsigned *node)
{
	*cpu = 0;
	*node = here;
}

bool __wrap_near__meta_keep(size_t size)
{
	room_kept = size > room_kept ? size : room_kept;
	return __real_near__meta_keep(size);
}

uint32_t __wrap_near__runs_with(const struct near__runs *all, uint32_t page, uint32_t least)
{
	searches++;
	return __real_near__runs_with(all, page, least);
}

static size_t bytes(uint32_t pages)
{
	return (size_t)pages << NEAR__PAGE_SHIFT;
}

/* ---- runs ---- */

static const bool run_is_filled = false; /* most of the memory is never touched */

static void run_note(const struct run *r, uint32_t from, bool taken)
{
	static bool is_taken[GRANULES];

	CHECK(r->first > 0 && (uint64_t)r->first + r->count <= GRANULES);
	for (uint32_t page = r->first + from; page < r->first + r->count; page++) {
		CHECK(is_taken[page] != taken);
		is_taken[page] = taken;
	}
}

/* By all nodes concurrently, mostly without any memory left. */
static void churn(void *unused)
{
	struct near__pages_stats after = runs_churn(unit_scale(40000), NODES, 4000);

	CHECK(after.top > GRANULES / 8 * 7 && after.top <= GRANULES);
}

UNIT_TEST(runs_never_overlap, unit_in_child(churn, NULL))

#define OTHERS 0x5a /* what other code writes */

static char *map_page(void *p)
{
	uintptr_t at = (uintptr_t)p & ~(NEAR__PAGE - 1);
	char *page = mmap((void *)at, NEAR__PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (page == MAP_FAILED || page != (char *)at)
		return NULL;
	return memset(page, OTHERS, NEAR__PAGE);
}

/* At a random place among blocks, or in a table that describes them. NULL: it is occupied. */
static char *map_somewhere(void)
{
	const struct near__heap *h = &near__heap;
	uint32_t page = unit_random(&seed) % GRANULES;
	char *places[] = {near__page_at(page), (char *)(h->page_map + page),
			  (char *)(h->owner + page), (char *)(h->dirty - page / 64) - 1,
			  h->meta.base - 1 - unit_random(&seed) % h->meta.size};

	return map_page(places[unit_random(&seed) % LENGTH(places)]);
}

/* Other code maps and unmaps pages in between. */
static void churn_among_others(void *number)
{
	static char *pages[16];

	seed = *(uint64_t *)number;
	for (unsigned i = 0; i < LENGTH(pages); i++) {
		pages[i] = map_somewhere();
		runs_churn(unit_scale(300), NODES, 2000);
		if (pages[i] && i % 4 == 0) {
			munmap(pages[i], NEAR__PAGE);
			pages[i] = NULL;
		}
	}
	for (unsigned i = 0; i < LENGTH(pages); i++)
		for (size_t n = 0; pages[i] && n < NEAR__PAGE; n++)
			CHECK(pages[i][n] == OTHERS);
}

static void runs_pass_over_others(void **state)
{
	for (uint64_t i = 1; i <= 20; i++)
		unit_in_child(churn_among_others, &i);
}

/* What a run that has no room had committed is given back: others find room there. */
static void leave_room(void *unused)
{
	struct run small, large;

	CHECK(map_page(near__page_at(SEGMENT + SEGMENT / 2)));
	CHECK(run_take(&large, 0, SEGMENT / 4 * 7, 1) && large.first >= 2 * SEGMENT);
	CHECK(run_take(&small, 1, 1000, 1));
	CHECK(small.first >= SEGMENT && small.first < SEGMENT + SEGMENT / 2);
}

UNIT_TEST(runs_leave_room, unit_in_child(leave_room, NULL))

/* Clean pages that are resident again are found beyond segments that no node has claimed. */
static void return_what_came_back(void *unused)
{
	struct run large;
	char *p;

	CHECK(map_page(near__page_at(SEGMENT + SEGMENT / 2)));
	CHECK(run_take(&large, 0, SEGMENT / 4 * 7, 1) && large.first >= 2 * SEGMENT);
	CHECK(!near__extent_of(SEGMENT));
	p = near__page_at(large.first);
	run_drop(&large);
	near__pages_purge(0, ALL);
	memset(p, 0, MB); /* as the system does */
	CHECK(resident_bytes(p, MB) == MB || unit_emulated());
	near__pages_purge_clean();
	CHECK(resident_bytes(p, MB) == 0);
}

UNIT_TEST(clean_pages_are_found, unit_in_child(return_what_came_back, NULL))

/* Of a block whose marks could not be removed the pages stay in use, and are in no block. A trim
 * does not pass over them one by one. */
static void lose_a_block(void *unused)
{
	struct run r;

	CHECK(run_take(&r, 0, SEGMENT, 1));
	near__set_tag(r.first, NEAR__REST);
	near__pages_purge_clean();
	CHECK(searches > 0 && searches <= 2 * SEGMENT / NEAR__MIDDLE);
}

UNIT_TEST(lost_blocks_are_passed, unit_in_child(lose_a_block, NULL))

/* What is left in front of another mapping is used, too. */
static void fill_rest(void *unused)
{
	struct run r;

	CHECK(map_page(near__page_at(SEGMENT / 2)));
	for (unsigned i = 0; i < 40; i++) {
		CHECK(run_take(&r, 0, 3000, 1));
		CHECK(room_kept >= bytes(near__pages_used()) / 64);
	}
}

UNIT_TEST(the_rest_has_descriptors, unit_in_child(fill_rest, NULL))

/* ---- nodes ---- */

/* Each gets its own memory, until no node has any. */
static void allocate_in_turn(void *unused)
{
	struct run r;
	uint32_t got = 0;

	for (unsigned i = 0; run_take(&r, i % NODES, SEGMENT / 4, 1); i++, got++)
		if (i < 2 * NODES)
			CHECK(near__node_of(r.first) == i % NODES);
	CHECK(got >= 3 * 8 && got < 4 * 8);
	/* And the rest, in single ones. */
	while (run_take(&r, 0, 1, 1))
		;
	CHECK(near__pages_used() == GRANULES);
	for (unsigned i = 0; i < NODES; i++)
		CHECK(!run_take(&r, i, 1, 1));
}

static void one_takes_all(void *node)
{
	unsigned n = *(unsigned *)node;
	struct run r;

	CHECK(run_take(&r, n, SEGMENT, 1) && near__node_of(r.first) == n);
	while (run_take(&r, n, SEGMENT / 8, 1))
		;
	while (run_take(&r, n, 1, 1))
		;
	CHECK(near__pages_used() == GRANULES);
}

static void nodes_share_the_heap(void **state)
{
	unit_in_child(allocate_in_turn, NULL);
	for (unsigned i = 0; i < NODES; i++)
		unit_in_child(one_takes_all, &i);
}

/* A third of the heap is less than 3 of 8 segments. */
static void take_large(void *node)
{
	size_t size = bytes(5 * SEGMENT), more = bytes(6 * SEGMENT) + 1;
	char *p, *q;

	here = *(unsigned *)node;
	p = malloc(size);
	CHECK(p && near__node_of(near__page_of(p)) == here);
	p[0] = p[size - 1] = 1;
	q = realloc(p, more); /* where it is, as nothing follows it */
	CHECK(q == p && malloc_usable_size(q) >= more);
	CHECK(q[0] == 1 && q[size - 1] == 1 && q[more - 1] == 0);
	CHECK_REFUSED(malloc(bytes(3 * SEGMENT)));
	CHECK_REFUSED(realloc(q, bytes(8 * SEGMENT)));
	CHECK(q[0] == 1);
	/* The part that is cut off serves all. */
	q = realloc(q, bytes(SEGMENT));
	CHECK(q == p && q[0] == 1);
	p = malloc(bytes(5 * SEGMENT));
	CHECK(p);
	free(q);
	free(p);
	here = (here + 1) % NODES;
	p = malloc(more);
	CHECK(p);
	free(p);
}

static void a_block_is_larger_than_a_share(void **state)
{
	for (unsigned i = 0; i < NODES; i++)
		unit_in_child(take_large, &i);
}

/* ---- sizes ---- */

static void ask_too_much(void **state)
{
	static const size_t sizes[] = {(size_t)GRANULES << 12,
				       (size_t)GRANULES << 13,
				       8 * TB,
				       16 * TB,
				       16 * TB + 1,
				       32 * TB,
				       PTRDIFF_MAX,
				       SIZE_MAX - 4096};
	char *p = malloc(100000);
	bool zero;

	assert_non_null(p);
	for (size_t i = 0; i < LENGTH(sizes); i++) {
		size_t power = (size_t)1 << (63 - __builtin_clzl(sizes[i]));

		CHECK_REFUSED(malloc(sizes[i]));
		CHECK_REFUSED(calloc(sizes[i] / 8, 8));
		CHECK_REFUSED(realloc(p, sizes[i]));
		CHECK_REFUSED(memalign(power, 100));
		CHECK_REFUSED(memalign(4096, sizes[i]));
		CHECK_REFUSED(memalign(power, sizes[i]));
	}
	for (uint32_t count = GRANULES; count >= GRANULES; count *= 2) {
		assert_int_equal(near__pages_alloc(0, count, 1, &zero), NEAR__NONE);
		assert_int_equal(near__pages_alloc(0, count, count, &zero), NEAR__NONE);
		assert_false(near__pages_grow(near__page_of(p), 25, count));
	}
	for (uint32_t less = 0; less < 100; less++) {
		assert_int_equal(near__pages_alloc(0, UINT32_MAX - less, 1, &zero), NEAR__NONE);
		assert_false(near__pages_grow(near__page_of(p), 25, UINT32_MAX - less));
	}
	free(p);
}

/* ---- descriptors ---- */

/* Spans of the smallest blocks need most of them. */
static void exhaust_descriptors(void *unused)
{
	struct chain *list = NULL, *others = NULL;
	size_t n = chain_take_all(&list, 8), limit = near__heap.meta.size / 3 * 2;

	CHECK(n > limit / 288 * 1024 && near__pages_used() < GRANULES / 2);
	CHECK(near__meta_used() > limit - 1024);
	CHECK(near__meta_alloc(limit) == 0 && near__meta_alloc(4096) == 0);
	CHECK(!near__meta_alloc(1024));
	/* What needs none goes on. */
	others = malloc(200000);
	CHECK(others);
	others->next = NULL;
	chain_take_all(&others, 65536);
	chain_take_all(&others, 3000);
	chain_free(list, 8);
	chain_free(others, 0);
	malloc_trim(0);
	list = NULL;
	/* Runs of free pages have descriptors of their own: no page was lost, in whatever order the
	 * spans became empty. */
	CHECK(chain_take_all(&list, 8) >= n / 10 * 9);
	chain_free(list, 8);
}

UNIT_TEST(descriptors_come_to_an_end, unit_in_child(exhaust_descriptors, NULL))

/* A number names what was handed out, up to the last one. */
static void number_descriptors(void *unused)
{
	char *end = near__heap.meta.base, *before = end, *p;
	uint32_t number, last = 0;

	while ((number = near__meta_alloc_run(40))) {
		p = near__meta_at(number);
		CHECK(number > last && p + 48 <= before && p >= end - near__heap.meta.size);
		CHECK(*(uint64_t *)p == 0);
		memset(p, 1, 40);
		before = p;
		last = number;
	}
	CHECK((size_t)last * NEAR__META_UNIT > near__heap.meta.size - 48);
}

UNIT_TEST(descriptors_have_numbers, unit_in_child(number_descriptors, NULL))

int main(void)
{
	if (near__page_size() != NEAR__PAGE) {
		puts("segments are larger where the system's pages are");
		return 77;
	}
	free(malloc(1)); /* the heap begins */
	if (near__heap.nodes != NODES || near__heap.size != bytes(GRANULES)) {
		fprintf(stderr, "%u nodes, %zu bytes of heap: not what is tested here\n",
			near__heap.nodes, near__heap.size);
		return 1;
	}
	return UNIT_TESTS(nodes_share_the_heap, a_block_is_larger_than_a_share, runs_never_overlap,
			  runs_pass_over_others, runs_leave_room, clean_pages_are_found,
			  lost_blocks_are_passed, the_rest_has_descriptors, ask_too_much,
			  descriptors_come_to_an_end, descriptors_have_numbers);
}
