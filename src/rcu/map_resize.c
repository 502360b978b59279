/* SPDX-License-Identifier: MIT */
/* near_rcu_map: tables, and how entries move from one to the next; src/rcu/map.h has the argument.
 */
#include "rcu/map.h"

#include <stdlib.h>

#include "base/heap.h"
#include "base/valgrind.h"

#define MOST_BITS (sizeof(void *) == 8 ? 40u : 24u) /* of a table */

/* ---- tables ---- */

/* Large ones are pages that are not touched yet. */
struct near__rcu_map_table *near__rcu_map_allocate(uint32_t bits)
{
	size_t bytes = sizeof(struct near__rcu_map_bucket) << bits;
	struct near__rcu_map_table *t;
	void *memory = near__heap_zeroed(1, bytes + 2 * sizeof(*t));

	if (!memory)
		return NULL;
	t = (void *)(((uintptr_t)memory + sizeof(*t) - 1) & -(uintptr_t)64);
	near__valgrind_ignore(t, bytes + sizeof(*t));
	t->memory = memory;
	t->bits = bits;
	return t;
}

void near__rcu_map_free(struct near__rcu_map_table *t)
{
	struct near__rcu_map_bucket *b = (void *)(t + 1), *end = b + ((uint64_t)1 << t->bits);

	if (t->chained)
		for (; b < end; b++)
			near__rcu_map_free_spares(b->more);
	free(t->memory);
}

static void free_by_call(struct near_rcu_head *head)
{
	near__rcu_map_free((void *)((char *)head - offsetof(struct near__rcu_map_table, head)));
}

uint32_t near__rcu_map_bits(const struct near_rcu_map *m, size_t entries)
{
	uint32_t bits = m->stripe_bits;

	if (!entries)
		return 0;
	while (bits <= MOST_BITS && (uint64_t)NEAR__RCU_MAP_FIT << bits < entries)
		bits++;
	return bits <= MOST_BITS ? bits : 0;
}

uint64_t near__rcu_map_sum(const struct near_rcu_map *m)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < near__rcu_map_stripes(m); i++)
		n += __atomic_load_n(&m->stripes[i].count, __ATOMIC_RELAXED);
	return n;
}

/* ---- the steps of a resize ---- */

/* From a table of `from` bits, unless another thread was first, or requested what no table is to
 * shrink below by itself. 0 or -ENOMEM. */
static int resize_begin(struct near_rcu_map *m, uint32_t from, uint32_t bits, bool by_itself)
{
	struct near__rcu_map_table *t, *next = near__rcu_map_allocate(bits);

	if (!next)
		return -ENOMEM;
	near_lock_lock(&m->resizing);
	t = near__rcu_map_current(m);
	if (t->bits == from && !t->next && !(by_itself && bits < m->floor_bits)) {
		__atomic_store_n(&m->helped, 0, __ATOMIC_RELAXED);
		/* Pairs with the acquires of threads that move buckets. */
		near__rcu_map_publish(t->next, near__rcu_map_word(next));
		next = NULL;
	}
	near_lock_unlock(&m->resizing);
	if (next)
		near__rcu_map_free(next);
	return 0;
}

void near__rcu_map_retire(struct near__rcu_map_table **retired, struct near__rcu_map_table *t)
{
	t->retired = __atomic_load_n(retired, __ATOMIC_RELAXED);
	/* Not a store: another thread may take the list, without the lock. Release: pairs with its
	 * acquire. */
	while (!__atomic_compare_exchange_n(retired, &t->retired, t, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

void near__rcu_map_hand_over(struct near_rcu *rcu, struct near__rcu_map_table **retired)
{
	struct near__rcu_map_table *t = __atomic_exchange_n(retired, NULL, __ATOMIC_ACQ_REL);

	while (t) {
		struct near__rcu_map_table *next = t->retired;

		near_rcu_call(rcu, &t->head, free_by_call,
			      (sizeof(struct near__rcu_map_bucket) << t->bits) + sizeof(*t));
		t = next;
	}
}

/* With `resizing`. False: a stripe has buckets left. */
static bool has_moved(struct near_rcu_map *m, const struct near__rcu_map_table *t)
{
	for (unsigned i = 0; i < near__rcu_map_stripes(m); i++) {
		uint64_t moved;

		near_lock_lock(&m->stripes[i].lock);
		moved = m->stripes[i].moved;
		near_lock_unlock(&m->stripes[i].lock);
		if (moved < (uint64_t)1 << (t->bits - m->stripe_bits)) {
			__atomic_store_n(&m->helped, i, __ATOMIC_RELAXED);
			return false;
		}
	}
	return true;
}

static void resize_end(struct near_rcu_map *m)
{
	struct near__rcu_map_table *t;

	near_lock_lock(&m->resizing);
	t = near__rcu_map_current(m);
	if (t->next && has_moved(m, t)) {
		near__rcu_map_publish(m->table, t->next);
		for (unsigned i = 0; i < near__rcu_map_stripes(m); i++) {
			near_lock_lock(&m->stripes[i].lock);
			m->stripes[i].moved = 0;
			near_lock_unlock(&m->stripes[i].lock);
		}
		near__rcu_map_retire(&m->retired, t);
	}
	near_lock_unlock(&m->resizing);
	near__rcu_map_hand_over(m->rcu, &m->retired);
}

/* With the stripe's lock. Sets *more if it has buckets left; returns how many spares it lacks. */
static size_t move_some(struct near_rcu_map *m, unsigned stripe, bool *more,
			struct near__rcu_map_bucket **spares)
{
	struct near__rcu_map_stripe *s = &m->stripes[stripe];
	struct near__rcu_map_table *t = near__rcu_map_current(m);
	uint64_t buckets = (uint64_t)1 << (t->bits - m->stripe_bits);
	size_t missing = 0;

	*more = false;
	/* Acquire: pairs with the release in resize_begin. */
	if (!__atomic_load_n(&t->next, __ATOMIC_ACQUIRE))
		return 0;
	for (int i = 0; i < NEAR__RCU_MAP_STEP && s->moved < buckets && !missing; i++) {
		missing = near__rcu_map_move(t, stripe * buckets + s->moved, spares);
		s->moved += !missing;
	}
	*more = s->moved < buckets;
	return missing;
}

/* Moves some buckets of a stripe. Returns 1 if it has more, 0, or -ENOMEM. */
static int move_step(struct near_rcu_map *m, unsigned stripe, bool waits)
{
	struct near__rcu_map_stripe *s = &m->stripes[stripe];
	struct near__rcu_map_bucket *spares = NULL;
	size_t missing;
	bool more;
	int r;

	do {
		r = 1;
		if (waits)
			near_lock_lock(&s->lock);
		else if (!near_lock_try_lock(&s->lock))
			break;
		missing = move_some(m, stripe, &more, &spares);
		near_lock_unlock(&s->lock);
		r = missing ? near__rcu_map_get_spares(&spares, missing) : more;
	} while (missing && !r);
	near__rcu_map_free_spares(spares);
	return r;
}

static void resize_help(struct near_rcu_map *m)
{
	/* Relaxed: a hint; `resize_end` checks all stripes. */
	unsigned i = __atomic_load_n(&m->helped, __ATOMIC_RELAXED);

	if (i < near__rcu_map_stripes(m)) {
		if (move_step(m, i, false))
			return;
		__atomic_store_n(&m->helped, ++i, __ATOMIC_RELAXED);
	}
	if (i >= near__rcu_map_stripes(m))
		resize_end(m);
}

/* ---- by itself ---- */

void near__rcu_map_react(struct near_rcu_map *m, enum near__rcu_map_need need)
{
	uint64_t n;
	uint32_t bits, wanted;

	if (need == NEAR__RCU_MAP_NOTHING)
		return;
	if (need == NEAR__RCU_MAP_HELP) {
		resize_help(m);
		return;
	}
	/* Relaxed: `resize_begin` compares. */
	bits = 64 - (uint32_t)(__atomic_load_n(&m->table, __ATOMIC_RELAXED) & 63);
	n = near__rcu_map_sum(m);
	wanted = bits;
	/* One stripe may have more or less than the others. */
	if (need == NEAR__RCU_MAP_GROW && n > (uint64_t)NEAR__RCU_MAP_FIT << bits &&
	    bits < MOST_BITS)
		wanted++;
	if (need == NEAR__RCU_MAP_SHRINK && n < (uint64_t)1 << bits >> 1 &&
	    bits > __atomic_load_n(&m->floor_bits, __ATOMIC_RELAXED))
		wanted--;
	/* Relaxed: a hint, so that one thread allocates. Without memory all stays as it is. */
	if (wanted == bits || __atomic_exchange_n(&m->starts, 1, __ATOMIC_RELAXED))
		return;
	resize_begin(m, bits, wanted, true);
	__atomic_store_n(&m->starts, 0, __ATOMIC_RELAXED);
}

/* ---- on request ---- */

static int resize_move_all(struct near_rcu_map *m)
{
	int r;

	for (unsigned i = 0; i < near__rcu_map_stripes(m); i++) {
		while ((r = move_step(m, i, true)) > 0)
			;
		if (r < 0)
			return r;
	}
	resize_end(m);
	return 0;
}

/* The number is stored with `resizing`, once a table for it is there: a call that fails leaves the
 * earlier one, and nobody begins to shrink that table after the call has ended. */
int near_rcu_map_resize(struct near_rcu_map *m, size_t entries)
{
	uint32_t floor = near__rcu_map_bits(m, entries), bits, wanted;
	int r = floor ? 0 : -EINVAL;
	bool resizing, done = false;

	while (!r && !done) {
		wanted = near__rcu_map_bits(m, near__rcu_map_sum(m) + 1);
		wanted = wanted > floor ? wanted : floor;
		near_lock_lock(&m->resizing);
		bits = near__rcu_map_current(m)->bits;
		resizing = near__rcu_map_current(m)->next;
		done = !resizing && bits == wanted;
		/* Relaxed: others load it as a hint, or with the lock. */
		if (done)
			__atomic_store_n(&m->floor_bits, floor, __ATOMIC_RELAXED);
		near_lock_unlock(&m->resizing);
		if (!done)
			r = resizing ? resize_move_all(m) : resize_begin(m, bits, wanted, false);
	}
	return r;
}
