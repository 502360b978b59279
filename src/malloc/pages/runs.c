/* SPDX-License-Identifier: MIT */
/* The free runs of a node, and what a free of pages does to them: the pages' tags, their bits in
 * `dirty`, the runs by size and by age. A freed run is merged with its free neighbours; `owner` of
 * the first and last page of a free run has its descriptor. */
#include <string.h>

#include "malloc/base/malloc_conf.h"
#include "malloc/pages/node.h"

struct near__extent_map near__extent_map;
struct near__pages near__pages[NEAR__MAX_NODES];

/* ---- tags ----
 *
 * Neighbours load the ends of a run to check whether it is free. Only these are marked in a long
 * run, so that a large block that is not used takes hardly any memory. The tags in between are 0,
 * as if free, and free refuses a pointer to there in any case. */

/* The map's own pages of longer runs are returned to the system. */
#define CLEARED (16 * NEAR__PAGE)

static void mark_long(uint32_t first, uint32_t count)
{
	uint8_t *tags = near__heap.page_map + first;

	if (near__heap.hooks == NEAR__CHECKED) { /* malloc_check.c searches for the first page */
		memset(tags, NEAR__REST, count);
		return;
	}
	memset(tags, NEAR__REST, NEAR__MARKED);
	memset(tags + count - NEAR__MARKED, NEAR__REST, NEAR__MARKED);
}

/* Makes a run not free: its first and last pages become NEAR__REST, the others that or 0. */
static void page_map_mark(uint32_t first, uint32_t count)
{
	if (NEAR__LIKELY(count < NEAR__LONG))
		memset(near__heap.page_map + first, NEAR__REST, count);
	else
		mark_long(first, count);
}

/* A block that has grown is marked in pieces: cut in the middle of a long one, what is left of its
 * tags' gap would be taken for a free run (resident.c). */
void near__page_map_cut(uint32_t first, uint32_t stays)
{
	uint8_t *end = near__heap.page_map + first + stays - NEAR__MARKED;
	uint32_t gap = 0;

	page_map_mark(first, stays);
	if (stays < NEAR__LONG)
		return;
	while (gap < NEAR__MIDDLE && !end[-1 - (int32_t)gap])
		gap++;
	if (gap < NEAR__MIDDLE)
		memset(end - gap, NEAR__REST, gap);
}

/* Makes a run free, whatever its tags were. */
static void page_map_unmark(uint32_t first, uint32_t count)
{
	uint8_t *tags = near__heap.page_map + first;

	if (NEAR__LIKELY(count < CLEARED))
		memset(tags, 0, count);
	else
		near__os_discard(tags, count);
}

/* ---- dirty pages ---- */

/* The thread that purges pages loads their bits without the lock, while other threads change other
 * bits of the word. */
static uint64_t *word_at(uint32_t page)
{
	return near__heap.dirty - 1 - page / 64;
}

static uint64_t dirty_word(uint32_t page)
{
	return __atomic_load_n(word_at(page), __ATOMIC_RELAXED);
}

static void set_in_word(uint32_t first, uint32_t end, bool dirty)
{
	uint64_t mask = near__page_bits(first, end);
	uint64_t word = dirty ? dirty_word(first) | mask : dirty_word(first) & ~mask;

	__atomic_store_n(word_at(first), word, __ATOMIC_RELAXED);
}

/* The words in the middle belong to this run alone. */
void near__dirty_set(uint32_t first, uint32_t count, bool dirty)
{
	uint32_t end = first + count, from = (first + 63) & ~63u, to = end & ~63u;

	if (from > to) {
		set_in_word(first, end, dirty);
		return;
	}
	if (first < from)
		set_in_word(first, from, dirty);
	if (from < to)
		memset(word_at(to - 1), dirty ? 0xff : 0, (to - from) / 8);
	if (to < end)
		set_in_word(to, end, dirty);
}

/* The first page of [first, end) whose bit is set; with `flip` all ones: is clear. */
static uint32_t dirty_next(uint32_t first, uint32_t end, uint64_t flip)
{
	for (uint32_t g = first; g < end; g = (g | 63) + 1) {
		uint64_t word = (dirty_word(g) ^ flip) & near__page_bits(g, end);

		if (word)
			return (g & ~63u) + (uint32_t)__builtin_ctzll(word);
	}
	return end;
}

uint32_t near__dirty_next(uint32_t first, uint32_t end)
{
	return dirty_next(first, end, 0);
}

uint32_t near__dirty_count(uint32_t first, uint32_t count)
{
	uint32_t end = first + count, n = 0;

	for (uint32_t g = first; g < end; g = (g | 63) + 1)
		n += (uint32_t)__builtin_popcountll(dirty_word(g) & near__page_bits(g, end));
	return n;
}

/* Clean pages that are in one of the system's with a dirty one go with it. */
void near__dirty_discard(uint32_t begin, uint32_t end)
{
	uint32_t unit = near__system_page(), first = begin, stop;

	for (; (first = near__dirty_next(first, end)) < end; first = stop) {
		stop = (dirty_next(first, end, ~(uint64_t)0) + unit - 1) & ~(unit - 1);
		stop = stop < end ? stop : end;
		first &= ~(unit - 1);
		first = first > begin ? first : begin;
		near__os_discard(near__page_at(first), (size_t)(stop - first) << NEAR__PAGE_SHIFT);
	}
}

/* ---- free runs by size ----
 *
 * Lists, and a tree, ordered by (count, first): a treap whose priorities are computed from the
 * position of a run, so that it has no state but the root. In a list, `left` is the previous run, 0
 * for the first, and `right` the next. */

static uint32_t run_priority(const struct near__run *r)
{
	return r->first * 0x9e3779b1u;
}

static bool is_before(const struct near__run *a, uint32_t count, uint32_t first)
{
	return a->count < count || (a->count == count && a->first < first);
}

/* Splits the tree t into the runs before (count, first) and the rest. */
static void tree_split(uint32_t t, uint32_t count, uint32_t first, uint32_t *before, uint32_t *rest)
{
	while (t) {
		struct near__run *r = near__run_at(t);

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

static void tree_insert(uint32_t *root, uint32_t number)
{
	struct near__run *r = near__run_at(number);
	uint32_t *at = root;

	while (*at && run_priority(near__run_at(*at)) > run_priority(r))
		at = is_before(near__run_at(*at), r->count, r->first) ? &near__run_at(*at)->right
								      : &near__run_at(*at)->left;
	tree_split(*at, r->count, r->first, &r->left, &r->right);
	*at = number;
}

static void tree_remove(uint32_t *root, uint32_t number)
{
	const struct near__run *r = near__run_at(number);
	uint32_t *at = root, a = r->left, b = r->right;

	while (*at != number)
		at = is_before(near__run_at(*at), r->count, r->first) ? &near__run_at(*at)->right
								      : &near__run_at(*at)->left;
	while (a && b) {
		if (run_priority(near__run_at(a)) > run_priority(near__run_at(b))) {
			*at = a;
			at = &near__run_at(a)->right;
			a = *at;
		} else {
			*at = b;
			at = &near__run_at(b)->left;
			b = *at;
		}
	}
	*at = a ? a : b;
}

static uint32_t tree_find(uint32_t root, uint32_t count)
{
	uint32_t t = root, best = 0;

	while (t) {
		if (near__run_at(t)->count >= count) {
			best = t;
			t = near__run_at(t)->left;
		} else {
			t = near__run_at(t)->right;
		}
	}
	return best;
}

static uint32_t tree_with(uint32_t t, uint32_t page, uint32_t least)
{
	uint32_t found = 0;

	while (t && !found) {
		const struct near__run *r = near__run_at(t);

		if (r->count >= least && page - r->first < r->count)
			return t;
		found = r->count >= least ? tree_with(r->left, page, least) : 0;
		t = r->right;
	}
	return found;
}

uint32_t near__runs_with(const struct near__runs *all, uint32_t page, uint32_t least)
{
	return tree_with(all->root, page, least);
}

/* ---- dirty runs by age ---- */

bool near__run_is_due(const struct near__run *r, uint64_t decay_ms)
{
	return (uint32_t)near__os_ms() - r->freed >= decay_ms;
}

static void age_insert(struct near__runs *all, uint32_t number)
{
	struct near__run *r = near__run_at(number);
	uint32_t *newer, *older;

	if (near__run_is_due(r, near__malloc_conf.decay_ms)) {
		r->older = 0;
		r->newer = all->oldest;
	} else {
		r->newer = 0;
		r->older = all->newest;
	}
	newer = r->older ? &near__run_at(r->older)->newer : &all->oldest;
	older = r->newer ? &near__run_at(r->newer)->older : &all->newest;
	*newer = *older = number;
}

static void age_remove(struct near__runs *all, uint32_t number)
{
	struct near__run *r = near__run_at(number);

	*(r->older ? &near__run_at(r->older)->newer : &all->oldest) = r->newer;
	*(r->newer ? &near__run_at(r->newer)->older : &all->newest) = r->older;
}

/* ---- free runs ---- */

static void runs_insert(struct near__runs *all, uint32_t number)
{
	struct near__run *r = near__run_at(number);
	uint32_t i = r->count - 1;

	if (r->dirty)
		age_insert(all, number);
	if (i >= NEAR__RUN_LISTS) {
		tree_insert(&all->root, number);
		return;
	}
	r->left = 0;
	r->right = all->lists[i];
	if (r->right)
		near__run_at(r->right)->left = number;
	all->lists[i] = number;
	all->filled |= (uint64_t)1 << i;
}

static void runs_remove(struct near__runs *all, uint32_t number)
{
	const struct near__run *r = near__run_at(number);
	uint32_t i = r->count - 1;

	if (r->dirty)
		age_remove(all, number);
	if (i >= NEAR__RUN_LISTS) {
		tree_remove(&all->root, number);
		return;
	}
	if (r->right)
		near__run_at(r->right)->left = r->left;
	*(r->left ? &near__run_at(r->left)->right : &all->lists[i]) = r->right;
	if (!all->lists[i])
		all->filled &= ~((uint64_t)1 << i);
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
	runs_insert(&p->runs, number);
}

void near__pages_remove(struct near__pages *p, uint32_t number)
{
	near__pages_add(&p->stats.free, -(int64_t)near__run_at(number)->count);
	runs_remove(&p->runs, number);
	near__run_at(number)->left = p->spare;
	p->spare = number;
}

/* The neighbour's run joins the one that is being freed. */
static void run_merge(struct near__pages *p, uint32_t neighbour, struct near__run *r)
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

uint32_t near__runs_find(const struct near__runs *all, uint32_t count)
{
	uint64_t fit = count > NEAR__RUN_LISTS ? 0 : all->filled & ~(uint64_t)0 << (count - 1);

	return fit ? all->lists[__builtin_ctzll(fit)] : tree_find(all->root, count);
}

uint32_t near__pages_take(struct near__pages *p, uint32_t first, uint32_t count)
{
	uint32_t dirty = near__dirty_count(first, count);

	near__pages_add(&p->stats.dirty, -(int64_t)dirty);
	page_map_mark(first, count);
	return dirty;
}

void near__pages_free_locked(struct near__pages *p, uint32_t first, uint32_t count, bool dirty)
{
	struct near__run r = {.first = first, .count = count, .dirty = dirty};
	const struct near__extent *e = near__extent_of(first);

	page_map_unmark(first, count); /* all pages: a pointer into them is not allocated */
	near__dirty_set(first, count, dirty);
	near__pages_add(&p->stats.dirty, dirty ? count : 0);
	r.freed = (uint32_t)near__os_ms();

	if (first > e->first && near__page_is_free(first - 1))
		run_merge(p, first - 1, &r);
	if (first + count < e->top && near__page_is_free(first + count))
		run_merge(p, first + count, &r);
	near__pages_insert(p, r.first, r.count, r.dirty, r.freed);
}
