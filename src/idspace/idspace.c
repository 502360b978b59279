/* SPDX-License-Identifier: MIT */
/* The slow paths of near_idspace. idspace/idspace.h has the protocol. */
#include <nearcpu/idspace.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "idspace/idspace.h"
#include "ground/fork.h"
#include "ground/topology.h"

/* ---- the slot of a live thread ---- */

/* Constant for each slot, except where one has threads of several nodes in turn: there is no node
 * then, as init saw to it. */
static unsigned node_of_slot(const struct near_idspace *s, unsigned slot)
{
	int node;

	if (s->rest->ids.nodes == 1)
		return 0;
	if (near__process.slot_kind == NEAR_SLOT_NODE_CID)
		return slot / near__process.index_mode;
	node = near__topology_node_of(slot, s->rest->ids.nodes);
	return node < 0 ? 0 : (unsigned)node;
}

/* A thread that has just left the slot does no harm: what it stores is constant. A
 * sequence that finds the gate open ahead of the node takes the id for that of another node. */
bool near__idspace_open(const struct near_idspace *s, uint32_t *slot)
{
	struct near__id_slot *c;

	*slot = near__slot_open(s->slots);
	if (*slot == NEAR__NO_SLOT)
		return false;
	c = near__idspace_slot(s, *slot);
	if (__atomic_load_n(&c->gate, __ATOMIC_RELAXED) == NEAR__UNOPENED)
		__atomic_store_n(&c->node, node_of_slot(s, *slot), __ATOMIC_RELAXED);
	return near__gate_open_first(&c->gate);
}

/* What a thread without a slot uses, see caches.c. */
struct fallback {
	struct near__id_slot *slot;
	unsigned node;
};

static struct fallback local_fallback(const struct near_idspace *s)
{
	unsigned node = s->rest->ids.nodes == 1 ? 0 : near_node();

	return (struct fallback){near__fallback(s->slots), node < s->rest->ids.nodes ? node : 0};
}

/* ---- acquire ---- */

/* With the lock, from the bitmap. */
static int take(struct near_idspace *s, unsigned node)
{
	int id = near__ids_take(&s->rest->ids, node);

	s->rest->counts.allocations += id >= 0;
	return id;
}

/* With both locks: what the caches of other slots have is taken first, and an id of another node
 * last. */
static int take_anywhere(struct near_idspace *s, unsigned node, bool is_single)
{
	struct near_idspace_stats *counts = &s->rest->counts;
	bool taken = near__idspace_collect(s, false) != 0;
	int id = near__ids_take(&s->rest->ids, node);

	if (id < 0) {
		id = near__ids_take_foreign(&s->rest->ids);
		counts->foreign += id >= 0;
	}
	if (id >= 0)
		*(!taken      ? &counts->allocations
		  : is_single ? &counts->single
			      : &counts->migrations) += 1;
	return id;
}

/* The only thread of a process takes the lowest id from wherever it is cached: so it has one id,
 * whatever CPUs it runs on. With other threads, that would take what they use next. */
static int take_uncached(struct near_idspace *s, unsigned node)
{
	bool is_single = s->rest->simulated ? s->rest->simulated_single : near__is_one_thread();
	int id = -EAGAIN;

	if (!is_single) {
		near_lock_lock(s->rest->lock);
		id = take(s, node);
		near_lock_unlock(s->rest->lock);
	}
	if (id < 0) {
		near__idspace_lock_all(s);
		id = take_anywhere(s, node, is_single);
		near__idspace_unlock_all(s);
	}
	return id;
}

static void put(struct near_idspace *s, int id, uint64_t *count)
{
	near_lock_lock(s->rest->lock);
	near__ids_put(&s->rest->ids, (unsigned)id);
	++*count;
	near_lock_unlock(s->rest->lock);
}

/* `id` may be an error. */
static int give(struct near_idspace *s, struct near_worker *w, int id, bool is_hit)
{
	struct near__id *block;
	int err = id < 0 ? id : near__idspace_make_ready(s, (unsigned)id);

	if (err) {
		if (id >= 0)
			put(s, id, &s->rest->counts.discards);
		return err;
	}
	block = near__idspace_block(s, (uint64_t)id);
	NEAR__TSAN_ACQUIRE(block);
	block->owner = w;
	w->id1 = (uint32_t)id + 1;
	if (near__id_count(is_hit ? &block->hits : &block->taken) % NEAR__IDS_TRIM == 0)
		return near__idspace_renew(s, w);
	return id;
}

/* Empties the caches that were not used since the search before, and exchanges the worker's id for
 * a lower one of its node, if there is one. */
int near__idspace_renew(struct near_idspace *s, struct near_worker *w)
{
	struct near__ids *ids = &s->rest->ids;
	int id = near_worker_id(w);
	struct near__id *block = near__idspace_block(s, (uint64_t)id);
	bool has_lower;

	near__idspace_lock_all(s);
	s->rest->counts.discards += near__idspace_collect(s, true);
	has_lower = near__ids_has_lower(ids, (unsigned)block->node, (unsigned)id);
	if (has_lower) {
		block->owner = NULL;
		NEAR__TSAN_RELEASE(block);
		near__ids_put(ids, (unsigned)id);
		id = near__ids_take(ids, (unsigned)block->node);
		s->rest->counts.discards++;
	}
	near__idspace_unlock_all(s);
	if (!has_lower)
		return id;
	w->id1 = 0;
	return give(s, w, id, false);
}

static int acquire_fallback(struct near_idspace *s, struct near_worker *w, struct fallback f)
{
	uint64_t id1 = near__idspace_take_cached(f.slot);

	return id1 ? give(s, w, (int)id1 - 1, true) : give(s, w, take_uncached(s, f.node), false);
}

int near__idspace_acquire_slow(struct near_idspace *s, struct near_worker *w)
{
	uint64_t id1;
	uint32_t slot;

	for (int i = 0; i < NEAR_SEQ_TRIES && near__idspace_open(s, &slot); i++) {
		int result = near__idspace_try_acquire(s->slots, &id1);

		if (result == NEAR_SEQ_COMMITTED)
			return give(s, w, (int)id1 - 1, true);
		if (result == NEAR__NO_ID)
			return give(s, w, take_uncached(s, node_of_slot(s, slot)), false);
	}
	return acquire_fallback(s, w, local_fallback(s));
}

/* ---- release ---- */

static void release_fallback(struct near_idspace *s, unsigned id, struct fallback f)
{
	if (near__idspace_block(s, id)->node != f.node)
		put(s, (int)id, &s->rest->counts.discards);
	else if (!near__idspace_cache(f.slot, id + 1))
		put(s, (int)id, &s->rest->counts.evictions);
}

void near__idspace_release_slow(struct near_idspace *s, unsigned id)
{
	uint64_t node = near__idspace_block(s, id)->node;
	uint32_t slot;

	for (int i = 0; i < NEAR_SEQ_TRIES && near__idspace_open(s, &slot); i++) {
		int result = near__idspace_try_release(s->slots, id + 1, node);

		if (result == NEAR_SEQ_COMMITTED)
			return;
		if (result != NEAR_SEQ_FAILED) {
			put(s, (int)id,
			    result == NEAR__CACHE_FULL ? &s->rest->counts.evictions
						       : &s->rest->counts.discards);
			return;
		}
	}
	release_fallback(s, id, local_fallback(s));
}

void near__idspace_misuse(const struct near_idspace *s, const struct near_worker *w,
			  const char *call)
{
	char line[160];
	int id = near_worker_id(w);

	if (strcmp(call, "near_idspace_acquire") == 0 ||
	    (id >= 0 && (uint64_t)id < s->ids && near__idspace_block(s, (uint64_t)id)->owner == w))
		snprintf(line, sizeof(line), "%s: the worker has id %d already", call, id);
	else if (id < 0)
		snprintf(line, sizeof(line), "%s: the worker has no id", call);
	else
		snprintf(line, sizeof(line), "%s: id %d is not this worker's", call, id);
	near__die(line);
}

/* ---- simulation ---- */

int near__idspace_acquire_on(struct near_idspace *s, struct near_worker *w,
			     struct near__id_slot *slot)
{
	return acquire_fallback(s, w, (struct fallback){slot, slot->node});
}

void near__idspace_release_on(struct near_idspace *s, struct near_worker *w,
			      struct near__id_slot *slot)
{
	unsigned id = w->id1 - 1;

	near__idspace_block(s, id)->owner = NULL;
	w->id1 = 0;
	release_fallback(s, id, (struct fallback){slot, slot->node});
}
