/* SPDX-License-Identifier: MIT */
/* The allocator's levels below the caches: classes, runs of pages, spans. */
#include "runs.h"

#include "malloc/central/central.h"
#include "malloc/api/fast.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/base/lookup.h"
#include "malloc/central/spans.h"

/* ---- classes ---- */

static void the_least_class_that_is_large_enough(void **state)
{
	for (size_t n = 1; n <= NEAR__SMALL_MAX; n++) {
		unsigned c = near__class_compute(n);

		assert_in_range(c, 1, NEAR__SIZES);
		assert_true(near__sizes[c].size >= n);
		assert_true(c == 1 || near__sizes[c - 1].size < n);
	}
}

/* The least power of two from 16 on, and later on the least class. */
static void a_small_heap_has_few_classes(void **state)
{
	near__lookup_begin();
	for (size_t n = 0; n <= NEAR__TABLE_MAX; n++) {
		size_t size = near__sizes[near__class_of(n)].size;

		assert_true(size >= n && size >= 16 && !(size & (size - 1)));
		assert_true(size == 16 || size / 2 < n);
	}
	near__lookup_grown((size_t)1 << 30);
	for (size_t n = 0; n <= NEAR__TABLE_MAX; n++)
		assert_int_equal(near__class_of(n), near__class_compute(n ? n : 1));
	near__lookup_grown(0);
	assert_int_equal(near__class_of(48), near__class_compute(48));
}

static void reciprocals_divide(void **state)
{
	for (unsigned c = 1; c <= NEAR__SIZES; c++) {
		const struct near__size *z = &near__sizes[c];
		size_t span = z->pages * NEAR__PAGE;

		assert_true((size_t)z->size * z->objects <= span);
		assert_true((size_t)z->size * (z->objects + 1u) > span);
		assert_true(z->batch >= 1 && z->batch <= 128);
		assert_true(z->objects <= NEAR__MOST_OBJECTS);
		for (size_t offset = 0; offset < span; offset++)
			if ((uint64_t)offset * z->reciprocal >> 32 != offset / z->size)
				fail_msg("class %u, offset %zu", c, offset);
	}
}

/* The distance of the places where blocks of a class begin, 0 if the span decides. */
static size_t distance(const struct near__size *z)
{
	if (z->objects == 1)
		return NEAR__PAGE;
	if (z->pages * NEAR__PAGE == NEAR__SMALL_SPAN)
		return z->size; /* the span is aligned */
	return z->size <= NEAR__PAGE && !(z->size & (z->size - 1)) ? z->size : 0;
}

static void places_where_blocks_begin(void **state)
{
	for (unsigned c = 1; c <= NEAR__SIZES; c++) {
		const struct near__size *z = &near__sizes[c];
		size_t span = z->pages * NEAR__PAGE, step = distance(z);

		for (size_t offset = 0; offset < span; offset++)
			if (near__begins_here(c, offset) !=
			    (step && offset % NEAR__SMALL_SPAN % step == 0))
				fail_msg("class %u, offset %zu", c, offset);
		assert_int_equal(near__sizes[c].tag == c, step != 0);
	}
	for (size_t offset = 0; offset < NEAR__PAGE; offset += 16)
		assert_false(near__begins_here(0, offset) ||
			     near__begins_here(NEAR__LARGE, offset) ||
			     near__begins_here(NEAR__REST, offset) ||
			     near__begins_here(NEAR__SAMPLED, offset));
}

/* A part's blocks, wherever its span begins. */
static void places_where_blocks_of_parts_begin(void **state)
{
	unsigned parts = 0;

	for (unsigned c = 1; c <= NEAR__SIZES; c++) {
		const struct near__size *z = &near__sizes[c];

		if (z->tag == c)
			continue;
		for (size_t at = 0; at < z->pages * NEAR__PAGE; at++) {
			unsigned tag = z->tag + (unsigned)(at / NEAR__PAGE), found = 0;

			for (size_t first = 0; first < 5 * NEAR__PAGE; first += NEAR__PAGE)
				if (near__begins(tag, first + at, &found) != (at % z->size == 0) ||
				    found != c || near__class_of_tag(tag) != c)
					fail_msg("class %u, offset %zu", c, at);
		}
		parts += z->pages;
	}
	assert_int_equal(parts, NEAR__PARTS);
}

/* ---- pages ---- */

static const bool run_is_filled = true;

static void run_note(const struct run *r, uint32_t from, bool taken)
{
	for (uint32_t page = 0; taken && !from && page < r->count; page++)
		CHECK(near__heap.page_map[r->first + page] == NEAR__REST);
	for (unsigned i = 0; taken && i < LENGTH(runs); i++)
		if (&runs[i] != r && runs[i].count)
			CHECK(runs[i].first + runs[i].count <= r->first ||
			      r->first + r->count <= runs[i].first);
}

static void runs_never_overlap(void **state)
{
	struct near__pages_stats after = runs_churn(unit_scale(20000), 1, 40);

	near__pages_purge(0, ALL);
	near__pages_stats(&after);
	/* At the two ends of what is free a page of the system may be in use as well. */
	assert_in_range(after.dirty, 0, 2 * (near__system_page() - 1));
}

/* Neighbours that are freed, in any order, are one run again. */
static void freed_neighbours_are_one(void **state)
{
	static const unsigned orders[][4] = {
		{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};
	uint32_t whole, again;
	bool zero;

	/* Larger than all that is free: from the top, and nothing else fits as well. */
	whole = near__pages_alloc(0, 4000, 1, &zero);
	for (unsigned i = 0; i < LENGTH(orders); i++) {
		for (unsigned k = 0; k < 4; k++)
			near__pages_free(whole + orders[i][k] * 1000, 1000, false);
		again = near__pages_alloc(0, 4000, 1, &zero);
		assert_int_equal(again, whole);
	}
	near__pages_free(whole, 4000, false);
}

static void purged_runs_have_no_memory(void **state)
{
	struct run r = {.count = 256};
	size_t size = r.count * NEAR__PAGE;
	uint32_t align = near__system_page();
	bool zero;

	if (unit_emulated())
		skip(); /* the emulator has its own idea of what is present */
	r.first = near__pages_alloc(0, r.count, align, &zero);
	memset(near__page_at(r.first), 1, size);
	assert_int_equal(resident_bytes(near__page_at(r.first), size), size);
	near__pages_free(r.first, r.count, true);
	assert_int_equal(near__pages_purge(3600000, ALL), 0); /* not yet due */
	assert_int_equal(resident_bytes(near__page_at(r.first), size), size);
	assert_true(near__pages_purge(0, ALL) >= size);
	assert_int_equal(resident_bytes(near__page_at(r.first), size), 0);
	r.first = near__pages_alloc(0, r.count, align, &zero);
	assert_true(zero);
	run_check_zero(&r);
	near__pages_free(r.first, r.count, false);
}

/* The pages stay, but are cleared: calloc relies on it. */
static void purged_runs_are_zero_if_locked(void **state)
{
	struct run r = {.count = 8 * near__system_page()};
	size_t size = r.count * NEAR__PAGE;
	bool zero;
	void *p;

	near__pages_purge(0, ALL);
	r.first = near__pages_alloc(0, r.count, near__system_page(), &zero);
	p = near__page_at(r.first);
	/* A sanitizer's mlock does nothing. */
	if (syscall(SYS_mlock, p, size)) {
		near__pages_free(r.first, r.count, false);
		print_message("no memory may be locked here: %s\n", strerror(errno));
		skip();
	}
	memset(p, 1, size);
	near__pages_free(r.first, r.count, true);
	assert_true(near__pages_purge(0, ALL) >= size);
	r.first = near__pages_alloc(0, r.count, near__system_page(), &zero);
	assert_ptr_equal(near__page_at(r.first), p);
	if (zero)
		run_check_zero(&r);
	near__pages_free(r.first, r.count, true);
	assert_int_equal(syscall(SYS_munlock, p, size), 0);
}

#define MB_PAGES 256u

static uint64_t dirty_pages(void)
{
	struct near__pages_stats s;

	near__pages_stats(&s);
	return s.dirty;
}

/* Of whole pages of the system. */
static uint32_t take_mb(uint32_t mb)
{
	bool zero;

	return near__pages_alloc(0, mb * MB_PAGES, near__system_page(), &zero);
}

/* The pages are not written: the numbers are what is tested. */
static void free_mb(uint32_t first, uint32_t mb, uint64_t now)
{
	near__pages_free(first, mb * MB_PAGES, true);
	near__pages_limit(now);
}

static void dirty_pages_are_limited(void **state)
{
	uint64_t decay_ms = near__malloc_conf.decay_ms, now = near__os_ms(), least;
	uint32_t a = take_mb(100), b = take_mb(400), c = take_mb(100);

	near__pages_purge(0, ALL);
	least = dirty_pages(); /* what shares pages of the system with blocks */
	assert_in_range(least, 0, 2 * (near__system_page() - 1));
	free_mb(a, 100, now); /* half of the pages in use may be free */
	assert_int_equal(dirty_pages() - least, 100 * MB_PAGES);
	near__malloc_conf.decay_ms = UINT64_MAX;
	free_mb(b, 400, now);
	assert_int_equal(dirty_pages() - least, 500 * MB_PAGES);
	near__malloc_conf.decay_ms = decay_ms;
	near__pages_limit(now);
	assert_in_range(dirty_pages(), 62 * MB_PAGES, 64 * MB_PAGES);
	/* A part is needed again: several times as much is kept from now on. */
	near__pages_purge(0, ALL);
	a = take_mb(30);
	free_mb(c, 100, now);
	free_mb(a, 30, now);
	assert_int_equal(dirty_pages() - least, 130 * MB_PAGES);
	/* It is forgotten by then. Some of the pages that are returned were clean. */
	near__pages_limit(now + 200000);
	assert_in_range(dirty_pages(), 62 * MB_PAGES, 80 * MB_PAGES);
	near__pages_purge(0, ALL);
	assert_int_equal(dirty_pages(), least);
}

/* ---- spans ---- */

#define LISTS 600

static char *blocks[LISTS * 128];

static size_t take_lists(unsigned class)
{
	size_t n = 0;

	for (unsigned i = 0; i < LISTS; i++) {
		uint64_t list = near__central_take(class, near__sizes[class].batch);

		assert_false(near__list_is_empty(list));
		while (!near__list_is_empty(list))
			blocks[n++] = near__list_take(&list);
	}
	return n;
}

static void shuffle(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = unit_random(&seed) % (i + 1);
		char *p = blocks[i];

		blocks[i] = blocks[at];
		blocks[at] = p;
	}
}

static void give_lists(unsigned class, size_t n)
{
	for (size_t i = 0; i < n;) {
		uint64_t list = NEAR__EMPTY_LIST;

		for (unsigned k = 0; k < near__sizes[class].batch && i < n; k++)
			near__list_put(&list, blocks[i++]);
		near__central_give(class, list);
	}
}

static void take_each_once(unsigned class)
{
	struct near__central_stats before, during, after;
	size_t n;

	malloc_trim(0);
	near__central_stats(class, &before);
	n = take_lists(class);
	near__central_stats(class, &during);
	assert_int_equal(during.out - before.out, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(near__class_of_tag(near__heap.page_map[near__page_of(blocks[i])]),
				 class);
		assert_true(*(uint64_t *)blocks[i] == 0);
		*(uint64_t *)blocks[i] = 1; /* a second list with this block would find the 1 */
	}
	shuffle(n);
	give_lists(class, n);
	near__central_decay(true);
	near__central_stats(class, &after);
	assert_int_equal(after.out, before.out);
	/* All blocks of the spans were free, so that these were freed; one may be kept. */
	assert_true(after.spans <= before.spans + 1);
}

/* Spans with many blocks, and blocks that are a span each. */
static void each_block_is_taken_once(void **state)
{
	static const size_t sizes[] = {48, 5000, 8192, 65536};

	for (size_t i = 0; i < LENGTH(sizes); i++)
		take_each_once(near__class_compute(sizes[i]));
}

static unsigned length_of(unsigned class, uint64_t list)
{
	unsigned n = 0;

	while (!near__list_is_empty(list)) {
		uint64_t one = NEAR__EMPTY_LIST;

		near__list_put(&one, near__list_take(&list));
		near__central_give(class, one);
		n++;
	}
	return n;
}

/* In a large heap, which the tests before have made. */
static void blocks_of_whole_pages_come_in_batches(void **state)
{
	struct near__central_stats before, after;
	struct near__pages_stats pages, pages_after;

	assert_true((size_t)near__pages_used() << NEAR__PAGE_SHIFT >= (size_t)16 << 20);
	for (unsigned c = near__class_compute(8192); c <= NEAR__SIZES; c++) {
		if (near__sizes[c].objects != 1)
			continue;
		near__pages_stats(&pages);
		near__central_stats(c, &before);
		assert_int_equal(length_of(c, near__central_take(c, 128)), near__sizes[c].batch);
		near__central_stats(c, &after);
		near__pages_stats(&pages_after);
		assert_int_equal(after.out, before.out);
		assert_int_equal(after.refills, before.refills + 1);
		assert_int_equal(pages_after.top - pages_after.free, pages.top - pages.free);
	}
}

int main(void)
{
	free(malloc(1)); /* the heap begins */
	return UNIT_TESTS(the_least_class_that_is_large_enough, a_small_heap_has_few_classes,
			  reciprocals_divide, places_where_blocks_begin,
			  places_where_blocks_of_parts_begin, runs_never_overlap,
			  freed_neighbours_are_one, purged_runs_have_no_memory,
			  purged_runs_are_zero_if_locked, dirty_pages_are_limited,
			  each_block_is_taken_once, blocks_of_whole_pages_come_in_batches);
}
