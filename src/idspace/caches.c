/* SPDX-License-Identifier: MIT */
/* The caches of slots: those of fallback slots, and what is taken from other slots. */
#include "idspace/idspace.h"

#define BATCH 64 /* slots that are closed together */

/* ---- fallback slots ---- */

/* Acquire: pairs with the release below, so that the id's block is seen as it was left. */
uint64_t near__idspace_take_cached(struct near__id_slot *c)
{
	return __atomic_load_n(&c->word, __ATOMIC_RELAXED)
		       ? __atomic_exchange_n(&c->word, 0, __ATOMIC_ACQUIRE)
		       : 0;
}

bool near__idspace_cache(struct near__id_slot *c, uint64_t id1)
{
	uint64_t none = 0;

	return __atomic_compare_exchange_n(&c->word, &none, id1, false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

/* ---- caches of other slots ---- */

bool near__idspace_next(const struct near_idspace *s, unsigned *slot)
{
	return s->rest->simulated ? *slot < s->rest->simulated_slots
				  : near_percpu_next(s->slots, slot);
}

struct near__id_slot *near__idspace_slot(const struct near_idspace *s, unsigned slot)
{
	return s->rest->simulated ? &s->rest->simulated[slot] : near_percpu_at(s->slots, slot);
}

static bool is_fallback(const struct near_idspace *s, unsigned slot)
{
	return s->rest->simulated || near_percpu_is_fallback(slot);
}

/* Whether the id in the slot's cache is to be taken: all are, or none of its workers has acquired
 * it since the search before. What is loaded here may change until the gate is closed. */
static bool is_wanted(const struct near_idspace *s, const struct near__id_slot *c, bool unused_only)
{
	uint64_t id1 = __atomic_load_n(&c->word, __ATOMIC_RELAXED), hits;
	struct near__id *block;
	bool is_unused;

	if (!id1)
		return false;
	block = near__idspace_block(s, id1 - 1);
	hits = __atomic_load_n(&block->hits, __ATOMIC_RELAXED);
	is_unused = hits == block->seen;
	block->seen = hits;
	return is_unused || !unused_only;
}

static unsigned put_cached(struct near_idspace *s, uint64_t id1)
{
	if (id1)
		near__ids_put(&s->rest->ids, (unsigned)id1 - 1);
	return id1 != 0;
}

/* Between the fences no sequence changes the words. */
static unsigned empty_closed(struct near_idspace *s, struct near__id_slot *const *closed,
			     unsigned n)
{
	unsigned taken = 0;

	if (!n)
		return 0;
	near__fence();
	for (unsigned i = 0; i < n; i++) {
		taken += put_cached(s, closed[i]->word);
		closed[i]->word = 0;
	}
	near__fence();
	for (unsigned i = 0; i < n; i++)
		near__gate_open(&closed[i]->gate);
	return taken;
}

unsigned near__idspace_collect(struct near_idspace *s, bool unused_only)
{
	struct near__id_slot *closed[BATCH];
	unsigned n = 0, taken = 0;

	for (unsigned i = 0; near__idspace_next(s, &i); i++) {
		struct near__id_slot *c = near__idspace_slot(s, i);

		if (!is_wanted(s, c, unused_only))
			continue;
		if (is_fallback(s, i))
			taken += put_cached(s, near__idspace_take_cached(c));
		else if (near__gate_close(&c->gate))
			closed[n++] = c;
		if (n == BATCH) {
			taken += empty_closed(s, closed, n);
			n = 0;
		}
	}
	return taken + empty_closed(s, closed, n);
}

void near__idspace_lock_all(struct near_idspace *s)
{
	near__gates_lock();
	near_lock_lock(s->rest->lock);
}

void near__idspace_unlock_all(struct near_idspace *s)
{
	near_lock_unlock(s->rest->lock);
	near__gates_unlock();
}
