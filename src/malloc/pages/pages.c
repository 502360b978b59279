/* SPDX-License-Identifier: MIT */
/* The page allocator. It takes the smallest free run that is large enough, of equal ones the
 * lowest. A freed run is merged with its free neighbours; `owner` of the first and last page of a
 * free run has its descriptor. Pages that were written have their bits in `dirty`, and the oldest
 * dirty runs are returned to the system. Each node has its own runs. */
#include <string.h>

#include "malloc/pages/marks.h"
#include "malloc/pages/node.h"

static struct near__pages *pages_of(uint32_t page)
{
	return &near__pages[near__extent_of(page)->node];
}

/* A page in use may change its tag without this lock, but does not become free. */
static bool is_free(uint32_t page)
{
	return __atomic_load_n(&near__heap.page_map[page], __ATOMIC_RELAXED) == 0;
}

/* ---- free runs ---- */

uint32_t near__pages_take(struct near__pages *p, uint32_t first, uint32_t count)
{
	uint32_t dirty = near__dirty_count(first, count);

	near__pages_add(&p->stats.dirty, -(int64_t)dirty);
	near__page_map_mark(first, count);
	return dirty;
}

void near__pages_insert(struct near__pages *p, uint32_t first, uint32_t count, bool dirty,
			uint32_t freed)
{
	uint32_t number = p->spare;
	struct near__run *r;

	if (number)
		p->spare = near__run_at(number)->left;
	else
		number = near__meta_alloc_run(sizeof(*r));
	if (!number) { /* without a descriptor the run is lost */
		near__pages_take(p, first, count);
		return;
	}
	r = near__run_at(number);
	r->first = first;
	r->count = count;
	r->dirty = dirty;
	r->freed = freed;
	near__heap.owner[first] = near__heap.owner[first + count - 1] = number;
	near__pages_add(&p->stats.free, count);
	near__runs_insert(&p->runs, number);
	near__dirty_insert(&p->dirty, number);
}

void near__pages_remove(struct near__pages *p, uint32_t number)
{
	near__pages_add(&p->stats.free, -(int64_t)near__run_at(number)->count);
	near__runs_remove(&p->runs, number);
	near__dirty_remove(&p->dirty, number);
	near__run_at(number)->left = p->spare;
	p->spare = number;
}

static bool holds(const struct near__run *r, uint32_t count, uint32_t align)
{
	return near__align_page(r->first, align) + count <= r->first + r->count;
}

/* 0: none. */
static uint32_t find_run(const struct near__pages *p, uint32_t count, uint32_t align)
{
	uint32_t number = near__runs_find(&p->runs, count);
	uint64_t most = (uint64_t)count + align - 1;

	if (!number || holds(near__run_at(number), count, align))
		return number;
	return most <= NEAR__MAX_PAGES ? near__runs_find(&p->runs, (uint32_t)most) : 0;
}

static uint32_t from_run(struct near__pages *p, uint32_t number, uint32_t count, uint32_t align)
{
	struct near__run r = *near__run_at(number);
	uint32_t first = (uint32_t)near__align_page(r.first, align);

	near__pages_remove(p, number);
	if (first > r.first)
		near__pages_insert(p, r.first, first - r.first, r.dirty, r.freed);
	if (first + count < r.first + r.count)
		near__pages_insert(p, first + count, r.first + r.count - first - count, r.dirty,
				   r.freed);
	return first;
}

/* ---- the top: the end of the pages that were ever used ---- */

static void raise_top(struct near__pages *p, struct near__extent *e, uint32_t top)
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
	return near__align_page(last ? near__run_at(last)->first : e->top, align);
}

/* Makes it usable for a block at its top. */
static enum near__commit reach(struct near__extent *e, uint32_t count, uint32_t align)
{
	uint64_t end = start_of(e, last_run(e), align) + count;

	return near__extent_commit(e, end > e->top ? end : e->top);
}

/* The extent has ended. If the pages that are left are few, they become a free run.
 * `others`: those of the next extent. */
static void use_rest(struct near__pages *p, struct near__extent *e, uint64_t others)
{
	uint32_t top = e->top, end = near__extent_fill(e, others);

	if (end == top)
		return;
	raise_top(p, e, end);
	near__pages_free_locked(p, top, end - top, false);
}

static struct near__extent *new_extent(struct near__pages *p, uint32_t count, uint32_t align)
{
	struct near__extent *e;

	if (!p->unclaimed) {
		uint32_t number = p->newest ? near__meta_alloc(sizeof(*e)) : 0;

		p->unclaimed = number ? near__meta_at(number) : p->newest ? NULL : &p->first;
	}
	e = p->unclaimed;
	if (!e || near__extent_claim(e, (unsigned)(p - near__pages), count, align) != NEAR__USABLE)
		return NULL;
	if (p->newest)
		use_rest(p, p->newest, near__align_page(e->first, align) + count - e->first);
	p->unclaimed = NULL;
	e->older = p->newest;
	return p->newest = e;
}

/* The newest extent with room at its end, else a new one. */
static struct near__extent *find_extent(struct near__pages *p, uint32_t count, uint32_t align)
{
	for (struct near__extent *e = p->newest; e; e = e->older) {
		enum near__commit result = reach(e, count, align);

		if (result != NEAR__OCCUPIED)
			return result == NEAR__USABLE ? e : NULL;
	}
	return new_extent(p, count, align);
}

static uint32_t from_top(struct near__pages *p, uint32_t count, uint32_t align)
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
	if (last)
		near__pages_remove(p, last);
	if (first > start)
		near__pages_insert(p, start, first - start, r.dirty, r.freed);
	if (end < e->top) /* the run is long enough because it is aligned already */
		near__pages_insert(p, end, e->top - end, r.dirty, r.freed);
	raise_top(p, e, end);
	return first;
}

static bool grow_at_top(struct near__pages *p, struct near__extent *e, uint32_t number,
			uint64_t end)
{
	if (near__extent_commit(e, end) != NEAR__USABLE)
		return false;
	if (number)
		near__pages_remove(p, number);
	raise_top(p, e, (uint32_t)end);
	return true;
}

/* ---- allocation and free ---- */

bool near__pages_init(void)
{
	bool zero;

	near__pages[0] = (struct near__pages){0};
	/* Page 0 is never used: lists without a block point to it. */
	return near__space_init() && near__pages_alloc(0, 1, 1, &zero) == 0;
}

/* near__pages_take for an allocation: `taken` counts the pages that were clean. */
static uint32_t take(struct near__pages *p, uint32_t first, uint32_t count)
{
	uint32_t dirty = near__pages_take(p, first, count);

	near__pages_add(&p->taken, count - dirty);
	return dirty;
}

static uint32_t alloc_locked(struct near__pages *p, uint32_t count, uint32_t align, bool *zero)
{
	uint32_t number = find_run(p, count, align);
	uint32_t first = number ? from_run(p, number, count, align) : from_top(p, count, align);

	*zero = first == NEAR__NONE || take(p, first, count) == 0;
	return first;
}

static uint32_t alloc_from(struct near__pages *p, uint32_t count, uint32_t align, bool *zero)
{
	uint32_t first;

	near__heap_lock(&p->lock);
	first = alloc_locked(p, count, align, zero);
	near_lock_unlock(&p->lock);
	return first;
}

bool near__pages_fit(unsigned node, uint32_t count)
{
	struct near__pages *p = &near__pages[node];
	bool fits;

	near__heap_lock(&p->lock);
	fits = near__runs_find(&p->runs, count) != 0;
	near_lock_unlock(&p->lock);
	return fits;
}

unsigned near__pages_alloc_runs(unsigned node, uint32_t *firsts, unsigned n, uint32_t count)
{
	struct near__pages *p = &near__pages[node];
	unsigned got = 0;
	bool zero;

	near__heap_lock(&p->lock);
	while (got < n && (firsts[got] = alloc_locked(p, count, 1, &zero)) != NEAR__NONE)
		got++;
	near_lock_unlock(&p->lock);
	return got;
}

uint32_t near__pages_alloc(unsigned node, uint32_t count, uint32_t align, bool *zero)
{
	uint32_t first = alloc_from(&near__pages[node], count, align, zero);

	for (unsigned i = 0; first == NEAR__NONE && i < near__heap.nodes; i++)
		if (i != node)
			first = alloc_from(&near__pages[i], count, align, zero);
	return first;
}

/* The neighbour's run joins the one that is being freed. */
static void merge(struct near__pages *p, uint32_t neighbour, struct near__run *r)
{
	uint32_t number = near__heap.owner[neighbour];
	struct near__run *n = near__run_at(number);

	if (n->dirty && (!r->dirty || (int32_t)(n->freed - r->freed) < 0))
		r->freed = n->freed;
	r->first = n->first < r->first ? n->first : r->first;
	r->count += n->count;
	r->dirty |= n->dirty;
	near__pages_remove(p, number);
}

void near__pages_free_locked(struct near__pages *p, uint32_t first, uint32_t count, bool dirty)
{
	struct near__run r = {.first = first, .count = count, .dirty = dirty};
	const struct near__extent *e = near__extent_of(first);

	near__page_map_unmark(first, count); /* all pages: a pointer into them is not allocated */
	near__dirty_set(first, count, dirty);
	near__pages_add(&p->stats.dirty, dirty ? count : 0);
	r.freed = (uint32_t)near__os_ms();

	if (first > e->first && is_free(first - 1))
		merge(p, first - 1, &r);
	if (first + count < e->top && is_free(first + count))
		merge(p, first + count, &r);
	near__pages_insert(p, r.first, r.count, r.dirty, r.freed);
}

void near__pages_free(uint32_t first, uint32_t count, bool dirty)
{
	struct near__pages *p = pages_of(first);

	if (!near__marks_clear(first, count)) { /* they stay in use for ever */
		near__set_tag(first, NEAR__REST);
		return;
	}
	near__heap_lock(&p->lock);
	near__pages_free_locked(p, first, count, dirty);
	near_lock_unlock(&p->lock);
}

void near__pages_free_runs(const uint32_t *firsts, unsigned n, uint32_t count)
{
	struct near__pages *p = pages_of(firsts[0]);
	bool kept = __atomic_load_n(&near__marks, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < n && kept; i++)
		near__pages_free(firsts[i], count, true);
	if (kept)
		return;
	near__heap_lock(&p->lock);
	for (unsigned i = 0; i < n; i++)
		near__pages_free_locked(p, firsts[i], count, true);
	near_lock_unlock(&p->lock);
}

static bool grow_locked(struct near__pages *p, uint32_t end, uint64_t new_end)
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
	struct near__pages *p = pages_of(first);
	bool grown;

	near__heap_lock(&p->lock);
	grown = grow_locked(p, first + count, (uint64_t)first + wanted);
	if (grown)
		take(p, first + count, wanted - count);
	near_lock_unlock(&p->lock);
	return grown;
}

/* The caller finds no block there from then on. */
void near__pages_lose(uint32_t first, uint32_t count)
{
	struct near__pages *p = pages_of(first);

	near__heap_lock(&p->lock);
	near__set_tag(first, NEAR__REST);
	__atomic_store_n(&p->used, p->used - count, __ATOMIC_RELAXED);
	near_lock_unlock(&p->lock);
}

void near__pages_fork(near__fork_step *step)
{
	for (unsigned i = 0; i < near__heap.nodes; i++)
		step(&near__pages[i].lock);
	near__space_fork(step);
}
