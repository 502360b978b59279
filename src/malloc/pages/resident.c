/* SPDX-License-Identifier: MIT */
/* Free pages that were returned to the system, and are resident again. Where transparent huge pages
 * are always on, khugepaged makes a huge page of an area of 2 MiB if a single page of it is in use:
 * all others of the area come back. Such pages are clean, and in no list of dirty runs. */
#include "malloc/base/conf.h"
#include "malloc/pages/node.h"
#include "malloc/pages/purge.h"

#define AREA ((uint32_t)1 << (21 - NEAR__PAGE_SHIFT))

/* An area that came back is excluded from huge pages: else khugepaged makes one again as soon as
 * it has scanned the process. Each area may add two mappings, of 65,530 that a process can have. */
#define MOST_EXCLUDED 4096u

/* Guarded by near__purging. */
static uint64_t cursor; /* the page to continue with */
static uint32_t excluded;

static bool is_free(const struct near__extent *e, uint64_t page)
{
	return page >= e->first && page < __atomic_load_n(&e->top, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&near__heap.page_map[page], __ATOMIC_RELAXED) == 0;
}

/* Takes the clean run that has this page. False: it is in no such run. */
static bool take_clean(struct near__pages *p, const struct near__extent *e, uint32_t page,
		       struct near__run *out)
{
	uint32_t number;

	if (!is_free(e, page))
		return false;
	while (page > e->first && is_free(e, page - 1))
		page--;
	number = near__heap.owner[page];
	*out = *near__run_at(number);
	if (out->dirty)
		return false;
	near__pages_remove(p, number);
	near__pages_take(p, out->first, out->count);
	return true;
}

/* Requires near__purging. While the system takes the pages, they appear allocated to other threads.
 * Returns the end of the page's run; the next page, if it is in no clean one. */
static uint64_t return_run(const struct near__extent *e, uint32_t page)
{
	struct near__pages *p = &near__pages[e->node];
	struct near__run r;
	bool taken;

	near__heap_lock(&p->lock);
	taken = take_clean(p, e, page, &r);
	near_lock_unlock(&p->lock);
	if (!taken)
		return (uint64_t)page + 1;
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

void near__pages_purge_clean(void)
{
	const struct near__extent *e;

	for (uint64_t page = 0; (e = find_used(&page));) {
		if (!is_free(e, page)) {
			page++;
			continue;
		}
		near_lock_lock(&near__purging); /* forks need not wait for all of it */
		page = return_run(e, (uint32_t)page);
		near_lock_unlock(&near__purging);
	}
}

/* The area is in use in part, and a free page of it is resident that was not written. */
static bool came_back(const struct near__extent *e, uint64_t page, uint64_t end)
{
	uint64_t clean = end, used = end;

	for (; page < end; page++) {
		if (!is_free(e, page))
			used = page;
		else if (clean == end && near__dirty_count((uint32_t)page, 1) == 0)
			clean = page;
	}
	return used < end && clean < end && near__os_is_resident(near__page_at((uint32_t)clean));
}

/* Requires near__purging. */
static void return_area(const struct near__extent *e, uint64_t page, uint64_t end)
{
	if (excluded < MOST_EXCLUDED && end <= e->top) {
		near__os_no_huge_pages(near__page_at((uint32_t)page), (end - page)
									      << NEAR__PAGE_SHIFT);
		excluded++;
	}
	while (page < end)
		page = is_free(e, page) ? return_run(e, (uint32_t)page) : page + 1;
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
