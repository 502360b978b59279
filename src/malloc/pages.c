/* SPDX-License-Identifier: MIT */
/* Runs of granules. Free runs stand in a treap by (count, first): the smallest that is large enough
 * is taken, among equals the lowest. A freed run is merged with its free neighbours, which `owner`
 * of its first and last granule names. What was written since the system gave it has its bit in
 * `dirty`; the oldest dirty runs are given back. */
#include <string.h>

#include "heap.h"

struct run {
	uint32_t first, count;
	uint32_t left, right;  /* in the treap; 0 is none */
	uint32_t older, newer; /* among the dirty */
	uint32_t freed;        /* ms, the low 32 bits */
	bool dirty;            /* in the list of dirty ones */
};

static struct {
	struct near_lock lock;
	uint32_t root;
	uint32_t oldest, newest;
	uint32_t spare; /* descriptors that are not in use, by `left` */
	uint32_t top;   /* the first granule that was never used */
	uint64_t purged_at;
	struct near__pages_stats stats;
} pages;

static struct run *run_at(uint32_t number)
{
	return near__meta_at(number);
}

/* ---- the treap ---- */

static uint32_t priority(const struct run *r)
{
	return r->first * 0x9e3779b1u;
}

static bool is_before(const struct run *a, uint32_t count, uint32_t first)
{
	return a->count < count || (a->count == count && a->first < first);
}

/* Splits the tree t in those before (count, first) and the rest. */
static void split(uint32_t t, uint32_t count, uint32_t first, uint32_t *before, uint32_t *rest)
{
	while (t) {
		struct run *r = run_at(t);

		if (is_before(r, count, first)) {
			*before = t;
			before = &r->right;
			t = r->right;
		} else {
			*rest = t;
			rest = &r->left;
			t = r->left;
		}
	}
	*before = *rest = 0;
}

static void tree_insert(uint32_t number)
{
	struct run *r = run_at(number);
	uint32_t *at = &pages.root;

	while (*at && priority(run_at(*at)) > priority(r))
		at = is_before(run_at(*at), r->count, r->first) ? &run_at(*at)->right
								: &run_at(*at)->left;
	split(*at, r->count, r->first, &r->left, &r->right);
	*at = number;
}

static void tree_remove(uint32_t number)
{
	const struct run *r = run_at(number);
	uint32_t *at = &pages.root, a = r->left, b = r->right;

	while (*at != number)
		at = is_before(run_at(*at), r->count, r->first) ? &run_at(*at)->right
								: &run_at(*at)->left;
	while (a && b) {
		if (priority(run_at(a)) > priority(run_at(b))) {
			*at = a;
			at = &run_at(a)->right;
			a = *at;
		} else {
			*at = b;
			at = &run_at(b)->left;
			b = *at;
		}
	}
	*at = a ? a : b;
}

static uint32_t tree_find(uint32_t count)
{
	uint32_t t = pages.root, best = 0;

	while (t) {
		if (run_at(t)->count >= count) {
			best = t;
			t = run_at(t)->left;
		} else {
			t = run_at(t)->right;
		}
	}
	return best;
}

/* ---- the dirty ---- */

/* The bits of [first, end) that stand in one word. */
static uint64_t mask_of(uint32_t first, uint32_t end)
{
	uint64_t mask = ~(uint64_t)0 << first % 64;

	return end - (first & ~63u) < 64 ? mask & ~(~(uint64_t)0 << end % 64) : mask;
}

static void set_dirty(uint32_t first, uint32_t count, bool dirty)
{
	uint64_t *words = (uint64_t *)near__heap.dirty.base;

	for (uint32_t g = first; g < first + count; g = (g | 63) + 1) {
		if (dirty)
			words[g / 64] |= mask_of(g, first + count);
		else
			words[g / 64] &= ~mask_of(g, first + count);
	}
}

static bool any_dirty(uint32_t first, uint32_t count)
{
	const uint64_t *words = (const uint64_t *)near__heap.dirty.base;

	for (uint32_t g = first; g < first + count; g = (g | 63) + 1)
		if (words[g / 64] & mask_of(g, first + count))
			return true;
	return false;
}

static void age_insert(uint32_t number)
{
	struct run *r = run_at(number);

	if (!r->dirty)
		return;
	r->freed = (uint32_t)near__os_ms();
	r->newer = 0;
	r->older = pages.newest;
	*(pages.newest ? &run_at(pages.newest)->newer : &pages.oldest) = number;
	pages.newest = number;
}

static void age_remove(uint32_t number)
{
	struct run *r = run_at(number);

	if (!r->dirty)
		return;
	*(r->older ? &run_at(r->older)->newer : &pages.oldest) = r->newer;
	*(r->newer ? &run_at(r->newer)->older : &pages.newest) = r->older;
}

/* ---- free runs ---- */

/* Requires that their kind is 0. A run is dirty if one of its granules may be. */
static void run_insert(uint32_t first, uint32_t count, bool dirty)
{
	uint32_t number = pages.spare;
	struct run *r;

	if (number)
		pages.spare = run_at(number)->left;
	else
		number = near__meta_alloc(sizeof(struct run));
	if (!number) /* no memory to remember it by: it is lost */
		return;
	r = run_at(number);
	r->first = first;
	r->count = count;
	r->dirty = dirty;
	near__heap.owner[first] = near__heap.owner[first + count - 1] = number;
	pages.stats.free += count;
	pages.stats.dirty += dirty ? count : 0;
	tree_insert(number);
	age_insert(number);
}

static void run_remove(uint32_t number)
{
	pages.stats.free -= run_at(number)->count;
	pages.stats.dirty -= run_at(number)->dirty ? run_at(number)->count : 0;
	tree_remove(number);
	age_remove(number);
	run_at(number)->left = pages.spare;
	pages.spare = number;
}

/* Addresses are aligned, not numbers. */
static uint32_t align_up(uint32_t granule, uint32_t align)
{
	uint64_t base = near__heap.base >> NEAR__GRANULE_SHIFT;

	return (uint32_t)(((base + granule + align - 1) & ~(uint64_t)(align - 1)) - base);
}

static uint32_t from_run(uint32_t number, uint32_t count, uint32_t align)
{
	struct run r = *run_at(number);
	uint32_t first = align_up(r.first, align);

	run_remove(number);
	if (first > r.first)
		run_insert(r.first, first - r.first, r.dirty);
	if (first + count < r.first + r.count)
		run_insert(first + count, r.first + r.count - first - count, r.dirty);
	return first;
}

static bool commit(uint32_t top)
{
	struct near__heap *h = &near__heap;
	size_t n = top;

	return near__range_commit(&h->blocks, n << NEAR__GRANULE_SHIFT) &&
	       near__range_commit(&h->kinds, n) && near__range_commit(&h->owners, n * 4) &&
	       near__range_commit(&h->dirty, n / 8 + 8);
}

/* From the end of what was used so far, and a free run that ends there. */
static uint32_t from_top(uint32_t count, uint32_t align)
{
	uint32_t start = pages.top, last = 0, first, end;
	bool dirty = false;

	if (start > 0 && near__heap.kind[start - 1] == 0) {
		last = near__heap.owner[start - 1];
		start = run_at(last)->first;
		dirty = run_at(last)->dirty;
	}
	first = align_up(start, align);
	end = first + count;
	if (end < first || !commit(end > pages.top ? end : pages.top))
		return NEAR__NONE;
	if (last)
		run_remove(last);
	if (first > start)
		run_insert(start, first - start, dirty);
	pages.top = end;
	return first;
}

uint32_t near__pages_alloc(uint32_t count, uint32_t align, bool *zero)
{
	uint32_t number, first;

	near_lock_lock(&pages.lock);
	number = tree_find(count + align - 1);
	first = number ? from_run(number, count, align) : from_top(count, align);
	*zero = first != NEAR__NONE && !any_dirty(first, count);
	if (first != NEAR__NONE)
		memset(near__heap.kind + first, NEAR__REST, count);
	near_lock_unlock(&pages.lock);
	return first;
}

static void free_locked(uint32_t first, uint32_t count, bool dirty)
{
	uint32_t number;

	/* All of them: a pointer into it is not allocated. */
	memset(near__heap.kind + first, 0, count);
	set_dirty(first, count, dirty);

	if (first > 0 && near__heap.kind[first - 1] == 0) {
		number = near__heap.owner[first - 1];
		first = run_at(number)->first;
		count += run_at(number)->count;
		dirty |= run_at(number)->dirty;
		run_remove(number);
	}
	if (first + count < pages.top && near__heap.kind[first + count] == 0) {
		number = near__heap.owner[first + count];
		count += run_at(number)->count;
		dirty |= run_at(number)->dirty;
		run_remove(number);
	}
	run_insert(first, count, dirty);
}

void near__pages_free(uint32_t first, uint32_t count, bool dirty)
{
	near_lock_lock(&pages.lock);
	free_locked(first, count, dirty);
	near_lock_unlock(&pages.lock);
}

bool near__pages_grow(uint32_t first, uint32_t count, uint32_t wanted)
{
	uint32_t end = first + count, number;
	bool grown = false;

	near_lock_lock(&pages.lock);
	if (end == pages.top) {
		grown = commit(first + wanted);
		if (grown)
			pages.top = first + wanted;
	} else if (near__heap.kind[end] == 0) {
		number = near__heap.owner[end];
		if (run_at(number)->count >= wanted - count) {
			from_run(number, wanted - count, 1);
			grown = true;
		} else if (run_at(number)->first + run_at(number)->count == pages.top &&
			   commit(first + wanted)) {
			run_remove(number);
			pages.top = first + wanted;
			grown = true;
		}
	}
	if (grown)
		memset(near__heap.kind + end, NEAR__REST, wanted - count);
	near_lock_unlock(&pages.lock);
	return grown;
}

/* Takes the oldest dirty run out while its pages are given back: no lock is held then. */
static bool purge_oldest(uint32_t now, uint64_t age_ms)
{
	uint32_t number, first, count;

	near_lock_lock(&pages.lock);
	number = pages.oldest;
	if (!number || now - run_at(number)->freed < age_ms) {
		near_lock_unlock(&pages.lock);
		return false;
	}
	first = run_at(number)->first;
	count = run_at(number)->count;
	run_remove(number);
	memset(near__heap.kind + first, NEAR__REST, count);
	near_lock_unlock(&pages.lock);
	near__os_discard(near__granule_at(first), (size_t)count << NEAR__GRANULE_SHIFT);
	near_lock_lock(&pages.lock);
	free_locked(first, count, false);
	pages.stats.purged += count;
	pages.stats.purges++;
	near_lock_unlock(&pages.lock);
	return true;
}

void near__pages_purge(uint64_t age_ms)
{
	uint32_t now = (uint32_t)near__os_ms();

	while (purge_oldest(now, age_ms))
		;
}

void near__pages_stats(struct near__pages_stats *out)
{
	near_lock_lock(&pages.lock);
	*out = pages.stats;
	out->top = pages.top;
	near_lock_unlock(&pages.lock);
}

void near__pages_fork(near__fork_step *step)
{
	step(&pages.lock);
}
