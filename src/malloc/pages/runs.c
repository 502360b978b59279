/* SPDX-License-Identifier: MIT */
/* Free runs by size: lists, and a treap whose priorities are computed from the position of a run,
 * so that it has no state but the root. In a list, `left` is the previous run, 0 for the first, and
 * `right` the next. */
#include "malloc/pages/runs.h"

/* ---- the tree, ordered by (count, first) ---- */

static uint32_t priority(const struct near__run *r)
{
	return r->first * 0x9e3779b1u;
}

static bool is_before(const struct near__run *a, uint32_t count, uint32_t first)
{
	return a->count < count || (a->count == count && a->first < first);
}

/* Splits the tree t into the runs before (count, first) and the rest. */
static void split(uint32_t t, uint32_t count, uint32_t first, uint32_t *before, uint32_t *rest)
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

	while (*at && priority(near__run_at(*at)) > priority(r))
		at = is_before(near__run_at(*at), r->count, r->first) ? &near__run_at(*at)->right
								      : &near__run_at(*at)->left;
	split(*at, r->count, r->first, &r->left, &r->right);
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
		if (priority(near__run_at(a)) > priority(near__run_at(b))) {
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

/* ---- lists and tree ---- */

void near__runs_insert(struct near__runs *all, uint32_t number)
{
	struct near__run *r = near__run_at(number);
	uint32_t i = r->count - 1;

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

void near__runs_remove(struct near__runs *all, uint32_t number)
{
	const struct near__run *r = near__run_at(number);
	uint32_t i = r->count - 1;

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

uint32_t near__runs_find(const struct near__runs *all, uint32_t count)
{
	uint64_t fit = count > NEAR__RUN_LISTS ? 0 : all->filled & ~(uint64_t)0 << (count - 1);

	return fit ? all->lists[__builtin_ctzll(fit)] : tree_find(all->root, count);
}
