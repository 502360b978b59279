/* SPDX-License-Identifier: MIT */
/* Free pages that were returned to the system, and are resident again. Where transparent huge pages
 * are always on, khugepaged makes a huge page of an area of 2 MiB if a single page of it is in use:
 * all others of the area come back. Such pages are clean, and in no list of dirty runs. */
#include "malloc/base/malloc_conf.h"
#include "malloc/pages/node.h"

#define AREA ((uint32_t)1 << (21 - NEAR__PAGE_SHIFT))

/* An area that came back is excluded from huge pages: else khugepaged makes one again as soon as
 * it has scanned the process. Each area may add two mappings, of 65,530 that a process can have. */
#define MOST_EXCLUDED 4096u

/* Guarded by near__purging. */
static uint64_t cursor; /* the page to continue with */
static uint32_t excluded;

/* Without the node's lock a hint: other threads write tags and owners, by memset as well. Volatile
 * and not atomic, as ThreadSanitizer checks atomics in spite of this attribute. */
#define UNWATCHED __attribute__((no_sanitize("thread")))

UNWATCHED static uint8_t tag_of(uint64_t page)
{
	return ((const volatile uint8_t *)near__heap.page_map)[page];
}

/* Also of a page in the middle of a long run in use, whose tags are 0 (pages.c). */
static bool extent_is_free(const struct near__extent *e, uint64_t page)
{
	return page >= e->first && page < __atomic_load_n(&e->top, __ATOMIC_ACQUIRE) &&
	       tag_of(page) == 0;
}

/* Requires the node's lock. The free run that has this page, 0: it is in none. *end: its end; or
 * of pages that are in none, as far as they have no tags, up to NEAR__MIDDLE of them: a long block
 * that stays in use for ever is passed in large steps. */
static uint32_t run_of(const struct near__pages *p, const struct near__extent *e, uint32_t page,
		       uint64_t *end)
{
	uint32_t first = page, number;

	*end = (uint64_t)page + 1;
	if (!extent_is_free(e, page))
		return 0;
	while (first > e->first && page - first < NEAR__MIDDLE && extent_is_free(e, first - 1))
		first--;
	while (*end - page < NEAR__MIDDLE && extent_is_free(e, *end))
		++*end;
	if (*end - first < NEAR__MIDDLE)
		return near__heap.owner[first];
	number = near__runs_with(&p->runs, page, NEAR__MIDDLE);
	if (number)
		*end = (uint64_t)near__run_at(number)->first + near__run_at(number)->count;
	return number;
}

/* Takes the clean run that has this page. False: it is in no such run. */
static bool take_clean(struct near__pages *p, const struct near__extent *e, uint32_t page,
		       struct near__run *out, uint64_t *end)
{
	uint32_t number = run_of(p, e, page, end);

	if (!number || near__run_at(number)->dirty)
		return false;
	*out = *near__run_at(number);
	near__pages_remove(p, number);
	near__pages_take(p, out->first, out->count);
	return true;
}

/* Requires near__purging. While the system takes the pages, they appear allocated to other threads.
 * Returns where to continue: the end of the page's run, or of the pages without tags. */
static uint64_t return_run(const struct near__extent *e, uint32_t page)
{
	struct near__pages *p = &near__pages[e->node];
	struct near__run r;
	uint64_t end;
	bool taken;

	near__heap_lock(&p->lock);
	taken = take_clean(p, e, page, &r, &end);
	near_lock_unlock(&p->lock);
	if (!taken)
		return end;
	near__os_discard(near__page_at(r.first), (size_t)r.count << NEAR__PAGE_SHIFT);
	near__heap_lock(&p->lock);
	near__pages_free_locked(p, r.first, r.count, false);
	near_lock_unlock(&p->lock);
	return (uint64_t)r.first + r.count;
}

/* The extent of the first used page from *page on; NULL: there are no more. Unclaimed segments may
 * be in between: large blocks pass over those that other code has mapped a part of. */
static const struct near__extent *find_used(uint64_t *page)
{
	uint64_t segment = (uint64_t)1 << near__extent_map.shift;

	while (*page < near__heap.size >> NEAR__PAGE_SHIFT) {
		const struct near__extent *e = near__extent_of((uint32_t)*page);

		if (e && *page >= e->first && *page < __atomic_load_n(&e->top, __ATOMIC_ACQUIRE))
			return e;
		*page = (*page | (segment - 1)) + 1;
	}
	return NULL;
}

/* From a page in use on. A large block may be made or freed concurrently: where the search
 * continues is checked in any case. */
UNWATCHED static uint32_t used_pages(uint64_t page)
{
	uint32_t pages = ((const volatile uint32_t *)near__heap.owner)[page];

	return tag_of(page) == NEAR__LARGE && pages ? pages : 1;
}

void near__pages_purge_clean(void)
{
	const struct near__extent *e;

	for (uint64_t page = 0; (e = find_used(&page));) {
		if (!extent_is_free(e, page)) {
			page += used_pages(page);
			continue;
		}
		near_lock_lock(&near__purging); /* forks need not wait for all of it */
		page = return_run(e, (uint32_t)page);
		near_lock_unlock(&near__purging);
	}
}

static bool is_in_run(const struct near__extent *e, uint32_t page)
{
	struct near__pages *p = &near__pages[e->node];
	uint32_t number;
	uint64_t end;

	near__heap_lock(&p->lock);
	number = run_of(p, e, page, &end);
	near_lock_unlock(&p->lock);
	return number != 0;
}

/* The area is in use in part, and a free page of it is resident that was not written. */
static bool came_back(const struct near__extent *e, uint64_t page, uint64_t end)
{
	uint64_t clean = end, used = end;

	for (; page < end; page++) {
		if (!extent_is_free(e, page))
			used = page;
		else if (clean == end && near__dirty_count((uint32_t)page, 1) == 0)
			clean = page;
	}
	return used < end && clean < end && near__os_is_resident(near__page_at((uint32_t)clean)) &&
	       is_in_run(e, (uint32_t)clean);
}

/* Requires near__purging. */
static void return_area(const struct near__extent *e, uint64_t page, uint64_t end)
{
	if (excluded < MOST_EXCLUDED && end <= __atomic_load_n(&e->top, __ATOMIC_RELAXED)) {
		near__os_no_huge_pages(near__page_at((uint32_t)page), (end - page)
									      << NEAR__PAGE_SHIFT);
		excluded++;
	}
	while (page < end)
		page = extent_is_free(e, page) ? return_run(e, (uint32_t)page) : page + 1;
}

void near__pages_purge_areas(unsigned areas)
{
	const struct near__extent *e;

	/* With larger pages of the system, areas have 32 or 512 MiB. */
	if (near__malloc_conf.decay_ms == UINT64_MAX || near__system_page() > 1 ||
	    !near_lock_try_lock(&near__purging))
		return;
	for (; areas && (e = find_used(&cursor)); areas--) {
		uint64_t page = cursor, end = near__align_page((uint32_t)page + 1, AREA);

		if (came_back(e, page, end))
			return_area(e, page, end);
		cursor = end;
	}
	cursor = areas ? 0 : cursor;
	near_lock_unlock(&near__purging);
}
