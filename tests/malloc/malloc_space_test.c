/* SPDX-License-Identifier: MIT */
/* The ends of the heap, of its numbers and of its descriptors, which NUMA nodes share. The
 * allocator is compiled with small limits for this test: a heap of 1 GiB in 8 segments, 512 KiB of
 * descriptors. The machine seems to have three nodes, and the test selects the one that it runs on.
 * */
#include "unit.h"

#include <malloc.h>

#include "kernel/hint.h"
#include "malloc/pages/pages.h"
#include "malloc/pages/space.h"
#include "malloc/trim.h"
#include "ground/topology.h"

#define NODES 3u
#define SEGMENT (UINT32_C(1) << 15)
#define GRANULES (8 * SEGMENT)
#define ALL ((size_t)1 << 40)

static unsigned here; /* the node that this thread runs on */

unsigned __wrap_near__topology_nodes(void);
void __wrap_near__where(unsigned *cpu, unsigned *node);

unsigned __wrap_near__topology_nodes(void)
{
	return NODES;
}

void __wrap_near__where(unsigned *cpu, unsigned *node)
{
	*cpu = 0;
	*node = here;
}

static size_t bytes(uint32_t pages)
{
	return (size_t)pages << NEAR__PAGE_SHIFT;
}

/* ---- runs ---- */

#define RUNS 400u

struct run {
	uint32_t first, count;
};
static struct run runs[RUNS];
static uint8_t taken[GRANULES];
static uint64_t seed = 7;

static void note(uint32_t first, uint32_t count, uint8_t taken_now)
{
	CHECK(first > 0 && (uint64_t)first + count <= GRANULES);
	for (uint32_t g = first; g < first + count; g++) {
		CHECK(taken[g] != taken_now);
		taken[g] = taken_now;
	}
}

/* Both ends, so that most of the memory is never touched. */
static void write_ends(const struct run *r)
{
	*(uint64_t *)near__page_at(r->first) = r->count;
	*(uint64_t *)near__page_at(r->first + r->count - 1) = r->count;
}

static void check_ends(const struct run *r)
{
	CHECK(*(uint64_t *)near__page_at(r->first) == r->count);
	CHECK(*(uint64_t *)near__page_at(r->first + r->count - 1) == r->count);
}

static bool take(struct run *r, unsigned node, uint32_t count, uint32_t align)
{
	const struct near__extent *e;
	bool zero = false;

	r->first = near__pages_alloc(node, count, align, &zero);
	if (r->first == NEAR__NONE)
		return false;
	r->count = count;
	note(r->first, count, 1);
	CHECK((uintptr_t)near__page_at(r->first) % bytes(align) == 0);
	e = near__extent_of(r->first);
	CHECK(e && e->first <= r->first && r->first + count <= e->top && e->top <= e->end);
	if (zero)
		CHECK(*(uint64_t *)near__page_at(r->first) == 0);
	write_ends(r);
	return true;
}

static void drop(struct run *r)
{
	check_ends(r);
	note(r->first, r->count, 0);
	near__pages_free(r->first, r->count, true);
	r->count = 0;
}

static void grow(struct run *r, uint32_t wanted)
{
	struct run had = *r;

	if (!near__pages_grow(r->first, r->count, wanted))
		return;
	r->count = wanted;
	note(had.first + had.count, wanted - had.count, 1);
	check_ends(&had);
	write_ends(r);
}

/* By all nodes concurrently, mostly without any memory left. */
static void churn(void *unused)
{
	struct near__pages_stats before, after;

	near__pages_stats(&before);
	for (unsigned i = unit_scale(40000); i-- > 0;) {
		struct run *r = &runs[unit_random(&seed) % RUNS];
		unsigned what = unit_random(&seed) % 100;
		uint32_t count = 1 + unit_random(&seed) % 4000;
		uint32_t align = what % 4 ? 1 : UINT32_C(1) << what % 13;

		if (what == 0)
			near__pages_purge(0, ALL);
		else if (!r->count)
			take(r, unit_random(&seed) % NODES, count, align);
		else if (what < 30)
			grow(r, r->count + count);
		else
			drop(r);
	}
	for (unsigned i = 0; i < RUNS; i++)
		if (runs[i].count)
			drop(&runs[i]);
	near__pages_stats(&after);
	CHECK(after.top > GRANULES / 8 * 7 && after.top <= GRANULES);
	CHECK(after.top - after.free == before.top - before.free);
}

static void runs_never_overlap(void **state)
{
	unit_in_child(churn, NULL);
}

/* ---- nodes ---- */

/* Each gets its own memory, until no node has any. */
static void allocate_in_turn(void *unused)
{
	struct run r;
	uint32_t got = 0;

	for (unsigned i = 0; take(&r, i % NODES, SEGMENT / 4, 1); i++, got++)
		if (i < 2 * NODES)
			CHECK(near__node_of(r.first) == i % NODES);
	CHECK(got >= 3 * 8 && got < 4 * 8);
	/* And the rest, in single ones. */
	while (take(&r, 0, 1, 1))
		;
	CHECK(near__pages_used() == GRANULES);
	for (unsigned i = 0; i < NODES; i++)
		CHECK(!take(&r, i, 1, 1));
}

static void one_takes_all(void *node)
{
	unsigned n = *(unsigned *)node;
	struct run r;

	CHECK(take(&r, n, SEGMENT, 1) && near__node_of(r.first) == n);
	while (take(&r, n, SEGMENT / 8, 1))
		;
	while (take(&r, n, 1, 1))
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
	errno = 0;
	CHECK(!malloc(bytes(3 * SEGMENT)) && errno == ENOMEM);
	errno = 0;
	CHECK(!realloc(q, bytes(8 * SEGMENT)) && errno == ENOMEM && q[0] == 1);
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
	static const size_t sizes[] = {
		(size_t)GRANULES << 12, (size_t)GRANULES << 13, (size_t)1 << 43, (size_t)1 << 44,
		((size_t)1 << 44) + 1,  (size_t)1 << 45,        PTRDIFF_MAX,     SIZE_MAX - 4096};
	char *p = malloc(100000);
	bool zero;

	assert_non_null(p);
	for (size_t i = 0; i < LENGTH(sizes); i++) {
		size_t power = (size_t)1 << (63 - __builtin_clzl(sizes[i]));

		errno = 0;
		assert_null(malloc(sizes[i]));
		assert_int_equal(errno, ENOMEM);
		assert_null(calloc(sizes[i] / 8, 8));
		assert_null(realloc(p, sizes[i]));
		assert_null(memalign(power, 100));
		assert_null(memalign(4096, sizes[i]));
		assert_null(memalign(power, sizes[i]));
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

static size_t take_all(void **list, size_t size)
{
	size_t n = 0;
	void **p;

	errno = 0;
	for (; (p = malloc(size)); n++) {
		*p = *list;
		*list = p;
	}
	CHECK(errno == ENOMEM);
	return n;
}

static void free_all(void *list)
{
	while (list) {
		void *next = *(void **)list;

		free(list);
		list = next;
	}
}

/* Spans of the smallest blocks need most of them. */
static void exhaust_descriptors(void *unused)
{
	void *list = NULL, *others = NULL;
	size_t n = take_all(&list, 8), limit = near__heap.meta.size;

	CHECK(n > limit / 288 * 1024 && near__pages_used() < GRANULES / 2);
	CHECK(near__meta_used() <= limit && near__meta_used() > limit - 1024);
	CHECK(near__meta_alloc(limit) == 0 && near__meta_alloc(4096) == 0);
	CHECK(!near__meta_alloc(1024));
	/* What needs none goes on. */
	others = malloc(200000);
	CHECK(others);
	*(void **)others = NULL;
	take_all(&others, 65536);
	take_all(&others, 3000);
	free_all(list);
	free_all(others);
	malloc_trim(0);
	list = NULL;
	CHECK(take_all(&list, 8) >= n / 2);
	free_all(list);
}

static void descriptors_come_to_an_end(void **state)
{
	unit_in_child(exhaust_descriptors, NULL);
}

/* A number names what was handed out, up to the last one. */
static void number_descriptors(void *unused)
{
	char *end = near__heap.meta.base, *before = end, *p;
	uint32_t number, last = 0;

	while ((number = near__meta_alloc(40))) {
		p = near__meta_at(number);
		CHECK(number > last && p + 48 <= before && p >= end - near__heap.meta.size);
		CHECK(*(uint64_t *)p == 0);
		memset(p, 1, 40);
		before = p;
		last = number;
	}
	CHECK((size_t)last * NEAR__META_UNIT > near__heap.meta.size - 48);
}

static void descriptors_have_numbers(void **state)
{
	unit_in_child(number_descriptors, NULL);
}

int main(void)
{
	free(malloc(1)); /* the heap begins */
	if (near__heap.nodes != NODES || near__heap.size != bytes(GRANULES)) {
		fprintf(stderr, "%u nodes, %zu bytes of heap: not what is tested here\n",
			near__heap.nodes, near__heap.size);
		return 1;
	}
	return UNIT_TESTS(nodes_share_the_heap, a_block_is_larger_than_a_share, runs_never_overlap,
			  ask_too_much, descriptors_come_to_an_end, descriptors_have_numbers);
}
