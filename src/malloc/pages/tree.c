/* SPDX-License-Identifier: MIT */
#include "malloc/pages/tree.h"

static uint32_t priority(const struct near__run *r)
{
	return r->first * 0x9e3779b1u;
}

static bool is_before(const struct near__run *a, uint32_t count, uint32_t first)
{
	return a->count < count || (a->count == count && a->first < first);
}

/* Splits the tree t in those before (count, first) and the rest. */
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

void near__tree_insert(uint32_t *root, uint32_t number)
{
	struct near__run *r = near__run_at(number);
	uint32_t *at = root;

	while (*at && priority(near__run_at(*at)) > priority(r))
		at = is_before(near__run_at(*at), r->count, r->first) ? &near__run_at(*at)->right
								      : &near__run_at(*at)->left;
	split(*at, r->count, r->first, &r->left, &r->right);
	*at = number;
}

void near__tree_remove(uint32_t *root, uint32_t number)
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

uint32_t near__tree_find(uint32_t root, uint32_t count)
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
