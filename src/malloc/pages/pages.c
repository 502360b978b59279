/* SPDX-License-Identifier: MIT */
/* The page allocator: it takes the smallest free run that is large enough, of equal ones the
 * lowest. Pages that were written have their bits in `dirty`, and the oldest dirty runs are
 * returned to the system. Each node has its own runs. */
#include "malloc/pages/marks.h"
#include "malloc/pages/node.h"

static struct near__pages *pages_of(uint32_t page)
{
	return &near__pages[near__extent_of(page)->node];
}

static bool run_holds(const struct near__run *r, uint32_t count, uint32_t align)
{
	return near__align_page(r->first, align) + count <= r->first + r->count;
}

/* 0: none. */
static uint32_t find_run(const struct near__pages *p, uint32_t count, uint32_t align)
{
	uint32_t number = near__runs_find(&p->runs, count);
	uint64_t most = (uint64_t)count + align - 1;

	if (!number || run_holds(near__run_at(number), count, align))
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

/* ---- allocation and free ---- */

bool near__pages_init(void)
{
	bool zero;

	near__pages[0] = (struct near__pages){0};
	/* Page 0 is never used: lists without a block point to it. */
	return near__space_init() && near__pages_alloc(0, 1, 1, &zero) == 0;
}

/* near__pages_take for an allocation: `taken` counts the pages that were clean. */
static uint32_t pages_take(struct near__pages *p, uint32_t first, uint32_t count)
{
	uint32_t dirty = near__pages_take(p, first, count);

	near__pages_add(&p->taken, count - dirty);
	return dirty;
}

static uint32_t alloc_locked(struct near__pages *p, uint32_t count, uint32_t align, bool *zero)
{
	uint32_t number = find_run(p, count, align);
	uint32_t first = number ? from_run(p, number, count, align)
				: near__space_alloc(p, count, align);

	*zero = first == NEAR__NONE || pages_take(p, first, count) == 0;
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

bool near__pages_fit(unsigned node, uint32_t count, uint32_t align)
{
	struct near__pages *p = &near__pages[node];
	uint32_t number;
	bool fits;

	near__heap_lock(&p->lock);
	number = find_run(p, count, align);
	fits = number && near__run_at(number)->dirty;
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
		return near__space_grow(p, e, 0, new_end);
	if (!near__page_is_free(end))
		return false;
	number = near__heap.owner[end];
	r = *near__run_at(number);
	if (r.count < new_end - end)
		return r.first + r.count == e->top && near__space_grow(p, e, number, new_end);
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
		pages_take(p, first + count, wanted - count);
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
