/* SPDX-License-Identifier: MIT */
/* The page allocator. It takes the smallest free run that is large enough, of equal ones the
 * lowest. A freed run is merged with its free neighbours; `owner` of the first and last page of a
 * free run has its descriptor. Pages that were written have their bits in `dirty`, and the oldest
 * dirty runs are returned to the system. Each node has its own runs. */
#include <string.h>

#include "malloc/pages/dirty.h"
#include "malloc/pages/pages.h"
#include "malloc/pages/space.h"

struct pages {
	struct near_lock lock;
	struct near__runs runs;
	struct near__dirty_list dirty;
	uint32_t spare; /* descriptors that are not in use, by `left` */
	uint32_t used;  /* pages of all extents */
	struct near__extent *newest, *unclaimed;
	struct near__extent first;
	struct near__pages_stats stats;
} __attribute__((aligned(NEAR__CACHE_LINE)));

static struct pages nodes[NEAR__MAX_NODES];

static struct pages *pages_of(uint32_t page)
{
	return &nodes[near__extent_of(page)->node];
}

/* A page in use may change its tag without this lock, but does not become free. */
static bool is_free(uint32_t page)
{
	return __atomic_load_n(&near__heap.page_map[page], __ATOMIC_RELAXED) == 0;
}

/* ---- free runs ---- */

/* Requires that the tags are 0. A run is dirty if one of its pages may be, since `freed`. */
static void run_insert(struct pages *p, uint32_t first, uint32_t count, bool dirty, uint32_t freed)
{
	uint32_t number = p->spare;
	struct near__run *r;

	if (number)
		p->spare = near__run_at(number)->left;
	else
		number = near__meta_alloc(sizeof(*r));
	if (!number) { /* without a descriptor the run is lost */
		near__page_map_mark(first, count);
		return;
	}
	r = near__run_at(number);
	r->first = first;
	r->count = count;
	r->dirty = dirty;
	r->freed = freed;
	near__heap.owner[first] = near__heap.owner[first + count - 1] = number;
	p->stats.free += count;
	p->stats.dirty += dirty ? count : 0;
	near__runs_insert(&p->runs, number);
	near__dirty_insert(&p->dirty, number);
}

static void run_remove(struct pages *p, uint32_t number)
{
	p->stats.free -= near__run_at(number)->count;
	p->stats.dirty -= near__run_at(number)->dirty ? near__run_at(number)->count : 0;
	near__runs_remove(&p->runs, number);
	near__dirty_remove(&p->dirty, number);
	near__run_at(number)->left = p->spare;
	p->spare = number;
}

/* Addresses are aligned, not numbers. */
static uint64_t align_up(uint32_t page, uint32_t align)
{
	uint64_t base = near__heap.base >> NEAR__PAGE_SHIFT;

	return ((base + page + align - 1) & ~(uint64_t)(align - 1)) - base;
}

static bool holds(const struct near__run *r, uint32_t count, uint32_t align)
{
	return align_up(r->first, align) + count <= r->first + r->count;
}

/* 0: none. */
static uint32_t find_run(const struct pages *p, uint32_t count, uint32_t align)
{
	uint32_t number = near__runs_find(&p->runs, count);
	uint64_t most = (uint64_t)count + align - 1;

	if (!number || holds(near__run_at(number), count, align))
		return number;
	return most <= NEAR__MAX_PAGES ? near__runs_find(&p->runs, (uint32_t)most) : 0;
}

static uint32_t from_run(struct pages *p, uint32_t number, uint32_t count, uint32_t align)
{
	struct near__run r = *near__run_at(number);
	uint32_t first = (uint32_t)align_up(r.first, align);

	run_remove(p, number);
	if (first > r.first)
		run_insert(p, r.first, first - r.first, r.dirty, r.freed);
	if (first + count < r.first + r.count)
		run_insert(p, first + count, r.first + r.count - first - count, r.dirty, r.freed);
	return first;
}

/* ---- the top: the end of the pages that were ever used ---- */

static void raise_top(struct pages *p, struct near__extent *e, uint32_t top)
{
	if (top <= e->top)
		return;
	__atomic_store_n(&p->used, p->used + (top - e->top), __ATOMIC_RELAXED);
	__atomic_store_n(&e->top, top, __ATOMIC_RELEASE); /* near__pages_contain */
	near__heap_publish((size_t)top << NEAR__PAGE_SHIFT, (size_t)near__pages_used()
								    << NEAR__PAGE_SHIFT);
}

/* The free run that ends at the top; 0: none. */
static uint32_t last_run(const struct near__extent *e)
{
	return e->top > e->first && is_free(e->top - 1) ? near__heap.owner[e->top - 1] : 0;
}

/* The begin of a block at the top, which uses that run. */
static uint64_t start_of(const struct near__extent *e, uint32_t last, uint32_t align)
{
	return align_up(last ? near__run_at(last)->first : e->top, align);
}

/* The newest extent with room at its end, else a new one. */
static struct near__extent *find_extent(struct pages *p, uint32_t count, uint32_t align)
{
	struct near__extent *e = p->newest;

	while (e && !near__extent_reach(e, start_of(e, last_run(e), align) + count))
		e = e->older;
	if (e)
		return e;
	if (!p->unclaimed) {
		uint32_t number = p->newest ? near__meta_alloc(sizeof(*e)) : 0;

		p->unclaimed = number ? near__meta_at(number) : p->newest ? NULL : &p->first;
	}
	e = p->unclaimed;
	if (!e || !near__extent_claim(e, (unsigned)(p - nodes), (uint64_t)count + align - 1))
		return NULL;
	p->unclaimed = NULL;
	e->older = p->newest;
	return p->newest = e;
}

static uint32_t from_top(struct pages *p, uint32_t count, uint32_t align)
{
	struct near__extent *e = find_extent(p, count, align);
	uint32_t last, start, first, end;
	struct near__run r = {0};

	if (!e)
		return NEAR__NONE;
	last = last_run(e);
	if (last)
		r = *near__run_at(last);
	start = last ? r.first : e->top;
	first = (uint32_t)start_of(e, last, align);
	end = first + count;
	if (!near__extent_commit(e, end > e->top ? end : e->top))
		return NEAR__NONE;
	if (last)
		run_remove(p, last);
	if (first > start)
		run_insert(p, start, first - start, r.dirty, r.freed);
	if (end < e->top) /* the run is long enough because it is aligned already */
		run_insert(p, end, e->top - end, r.dirty, r.freed);
	raise_top(p, e, end);
	return first;
}

static bool grow_at_top(struct pages *p, struct near__extent *e, uint32_t number, uint64_t end)
{
	if (!near__extent_reach(e, end) || !near__extent_commit(e, (uint32_t)end))
		return false;
	if (number)
		run_remove(p, number);
	raise_top(p, e, (uint32_t)end);
	return true;
}

/* ---- allocation and free ---- */

bool near__pages_init(void)
{
	bool zero;

	/* Page 0 is never used: lists without a block point to it. */
	return near__space_init() && near__pages_alloc(0, 1, 1, &zero) == 0;
}

static uint32_t alloc_from(struct pages *p, uint32_t count, uint32_t align, bool *zero)
{
	uint32_t number, first;

	near_lock_lock(&p->lock);
	number = find_run(p, count, align);
	first = number ? from_run(p, number, count, align) : from_top(p, count, align);
	if (first != NEAR__NONE) {
		*zero = !near__dirty_any(first, count);
		near__page_map_mark(first, count);
	}
	near_lock_unlock(&p->lock);
	return first;
}

uint32_t near__pages_alloc(unsigned node, uint32_t count, uint32_t align, bool *zero)
{
	uint32_t first = alloc_from(&nodes[node], count, align, zero);

	for (unsigned i = 0; first == NEAR__NONE && i < near__heap.nodes; i++)
		if (i != node)
			first = alloc_from(&nodes[i], count, align, zero);
	return first;
}

/* The neighbour's run joins the one that is being freed. */
static void merge(struct pages *p, uint32_t neighbour, struct near__run *r)
{
	uint32_t number = near__heap.owner[neighbour];
	struct near__run *n = near__run_at(number);

	if (n->dirty && (!r->dirty || (int32_t)(n->freed - r->freed) < 0))
		r->freed = n->freed;
	r->first = n->first < r->first ? n->first : r->first;
	r->count += n->count;
	r->dirty |= n->dirty;
	run_remove(p, number);
}

static void free_locked(struct pages *p, uint32_t first, uint32_t count, bool dirty)
{
	struct near__run r = {.first = first, .count = count, .dirty = dirty};
	const struct near__extent *e = near__extent_of(first);

	near__page_map_unmark(first, count); /* all pages: a pointer into them is not allocated */
	near__dirty_set(first, count, dirty);
	r.freed = (uint32_t)near__os_ms();

	if (first > e->first && is_free(first - 1))
		merge(p, first - 1, &r);
	if (first + count < e->top && is_free(first + count))
		merge(p, first + count, &r);
	run_insert(p, r.first, r.count, r.dirty, r.freed);
}

void near__pages_free(uint32_t first, uint32_t count, bool dirty)
{
	struct pages *p = pages_of(first);

	near_lock_lock(&p->lock);
	free_locked(p, first, count, dirty);
	near_lock_unlock(&p->lock);
}

static bool grow_locked(struct pages *p, uint32_t end, uint64_t new_end)
{
	struct near__extent *e = near__extent_of(end - 1);
	uint32_t number;
	struct near__run r;

	if (end == e->top)
		return grow_at_top(p, e, 0, new_end);
	if (!is_free(end))
		return false;
	number = near__heap.owner[end];
	r = *near__run_at(number);
	if (r.count < new_end - end)
		return r.first + r.count == e->top && grow_at_top(p, e, number, new_end);
	from_run(p, number, (uint32_t)(new_end - end), 1);
	return true;
}

bool near__pages_grow(uint32_t first, uint32_t count, uint32_t wanted)
{
	struct pages *p = pages_of(first);
	bool grown;

	near_lock_lock(&p->lock);
	grown = grow_locked(p, first + count, (uint64_t)first + wanted);
	if (grown)
		near__page_map_mark(first + count, wanted - count);
	near_lock_unlock(&p->lock);
	return grown;
}

uint32_t near__pages_used(void)
{
	uint32_t used = 0;

	for (unsigned i = 0; i < near__heap.nodes; i++)
		used += __atomic_load_n(&nodes[i].used, __ATOMIC_RELAXED);
	return used;
}

bool near__pages_contain(uint64_t offset)
{
	uint64_t page = offset >> NEAR__PAGE_SHIFT;
	const struct near__extent *e;

	if (offset >= near__heap.size)
		return false;
	e = near__extent_of((uint32_t)page);
	return e && page < __atomic_load_n(&e->top, __ATOMIC_ACQUIRE);
}

/* ---- decay ---- */

/* Cuts up to `most` pages, of which the first is dirty, out of the oldest run; none if the run is
 * in fact clean. False: no run is due. */
static bool take_dirty(struct pages *p, uint64_t decay_ms, uint64_t most, struct near__run *out)
{
	uint32_t number, end;
	struct near__run r;

	near_lock_lock(&p->lock);
	number = p->dirty.oldest;
	if (!number || !near__run_is_due(near__run_at(number), decay_ms)) {
		near_lock_unlock(&p->lock);
		return false;
	}
	r = *near__run_at(number);
	end = r.first + r.count;
	out->first = near__dirty_next(r.first, end);
	out->count = end - out->first < most ? end - out->first : (uint32_t)most;
	run_remove(p, number);
	if (out->first > r.first)
		run_insert(p, r.first, out->first - r.first, false, 0);
	if (out->first + out->count < end)
		run_insert(p, out->first + out->count, end - out->first - out->count, true,
			   r.freed);
	near__page_map_mark(out->first, out->count);
	near_lock_unlock(&p->lock);
	return true;
}

static void give_back(struct pages *p, uint32_t first, uint32_t count)
{
	near__dirty_discard(first, first + count);
	near_lock_lock(&p->lock);
	free_locked(p, first, count, false);
	p->stats.purged += count;
	p->stats.purges++;
	near_lock_unlock(&p->lock);
}

/* No lock is held while the system takes the pages: they appear allocated to other threads. */
size_t near__pages_purge(uint64_t decay_ms, size_t most)
{
	uint64_t all = most >> NEAR__PAGE_SHIFT, purged = 0;
	struct near__run r;

	for (unsigned i = 0; i < near__heap.nodes; i++)
		while (purged < all && take_dirty(&nodes[i], decay_ms, all - purged, &r)) {
			if (r.count)
				give_back(&nodes[i], r.first, r.count);
			purged += r.count;
		}
	return (size_t)purged << NEAR__PAGE_SHIFT;
}

void near__pages_stats(struct near__pages_stats *out)
{
	*out = (struct near__pages_stats){.top = near__pages_used()};
	for (unsigned i = 0; i < near__heap.nodes; i++) {
		struct pages *p = &nodes[i];

		near_lock_lock(&p->lock);
		out->free += p->stats.free;
		out->dirty += p->stats.dirty;
		out->purged += p->stats.purged;
		out->purges += p->stats.purges;
		for (const struct near__extent *e = p->newest; e; e = e->older)
			out->committed += e->blocks.committed + e->map.committed +
					  e->owners.committed + e->dirty.committed;
		near_lock_unlock(&p->lock);
	}
}

void near__pages_fork(near__fork_step *step)
{
	for (unsigned i = 0; i < near__heap.nodes; i++)
		step(&nodes[i].lock);
	near__space_fork(step);
}
