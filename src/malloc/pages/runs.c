/* SPDX-License-Identifier: MIT */
/* In a list, `left` is the one before, 0 for the first, and `right` the next. */
#include "malloc/pages/runs.h"

void near__runs_insert(struct near__runs *all, uint32_t number)
{
	struct near__run *r = near__run_at(number);
	uint32_t i = r->count - 1;

	if (i >= NEAR__RUN_LISTS) {
		near__tree_insert(&all->root, number);
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
		near__tree_remove(&all->root, number);
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

	return fit ? all->lists[__builtin_ctzll(fit)] : near__tree_find(all->root, count);
}
