/* SPDX-License-Identifier: MIT */
/* The slow paths of near_shared_ids. idspace/shared.h has the protocol. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "idspace/shared.h"

static struct near__shared_id *line_of(const struct near_shared_ids *s, unsigned id)
{
	return &s->owners[id];
}

/* ---- the bitmap, a hint ---- */

/* Of a word: bits of ids that may be free, or that may be used. */
static uint64_t bits_of(const struct near_shared_ids *s, unsigned word, bool used)
{
	uint64_t bits = __atomic_load_n(&s->bitmap[word], __ATOMIC_RELAXED);
	uint64_t left = s->ids - (uint64_t)word * 64;

	bits = used ? bits : ~bits;
	return left < 64 ? bits & ((UINT64_C(1) << left) - 1) : bits;
}

static void set_bit(const struct near_shared_ids *s, unsigned id)
{
	NEAR__BIT_SET(s->bitmap, id, __ATOMIC_RELAXED);
}

/* ---- owner words ---- */

/* Acquire: pairs with the release of the owner before, or of the thread that took the id back. */
static bool try_own(struct near_shared_ids *s, struct near_worker *w, unsigned id)
{
	uint64_t *owner = &line_of(s, id)->owner, was = __atomic_load_n(owner, __ATOMIC_RELAXED);
	bool taken = was <= LEFT &&
		     __atomic_compare_exchange_n(owner, &was, near__shared_ids_tag(s, w), false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);

	set_bit(s, id); /* also of one that is in use */
	if (taken)
		w->must_repair = was == LEFT;
	return taken;
}

/* Release: pairs with the acquire above, or in near__shared_ids_try. What is to be repaired stays
 * so. */
static void shared_disown(struct near_shared_ids *s, unsigned id, bool is_left)
{
	__atomic_store_n(&line_of(s, id)->owner, is_left ? LEFT : 0, __ATOMIC_RELEASE);
}

static void give_up(struct near_shared_ids *s, unsigned id, bool is_left)
{
	shared_disown(s, id, is_left);
	shared_clear_bit(s, id);
}

/* ---- which id ---- */

enum wanted { OWN_NODE, NO_NODE, ANY_NODE };

static bool is_wanted(const struct near_shared_ids *s, unsigned id, unsigned node1,
		      enum wanted wanted)
{
	uint64_t of = __atomic_load_n(&line_of(s, id)->node1, __ATOMIC_RELAXED);

	return wanted == ANY_NODE || of == (wanted == OWN_NODE ? node1 : 0);
}

/* The lowest id below `end` that is free by the bitmap; or by its owner word, which finds those
 * that are cached, or that a killed process left. -EAGAIN: there is none. */
static int take_below(struct near_shared_ids *s, struct near_worker *w, unsigned end,
		      unsigned node1, enum wanted wanted, bool by_bitmap)
{
	for (unsigned i = 0; i * 64 < end; i++) {
		uint64_t bits = bits_of(s, i, false);

		if (!by_bitmap)
			bits |= bits_of(s, i, true);
		for (; bits; bits &= bits - 1) {
			unsigned id = i * 64 + (unsigned)__builtin_ctzll(bits);

			if (id < end && is_wanted(s, id, node1, wanted) && try_own(s, w, id))
				return (int)id;
		}
	}
	return -EAGAIN;
}

static unsigned local_node1(const struct near_shared_ids *s)
{
	return s->nodes == 1 ? 1 : near_node() + 1;
}

static int shared_take(struct near_shared_ids *s, struct near_worker *w)
{
	unsigned node1 = local_node1(s), ids = (unsigned)s->ids;
	int id = take_below(s, w, ids, node1, OWN_NODE, true);

	if (id < 0)
		id = take_below(s, w, ids, node1, NO_NODE, true);
	if (id < 0)
		id = take_below(s, w, ids, node1, OWN_NODE, false);
	if (id < 0)
		id = take_below(s, w, ids, node1, ANY_NODE, false);
	if (id >= 0 && line_of(s, (unsigned)id)->node1 == 0)
		__atomic_store_n(&line_of(s, (unsigned)id)->node1, node1, __ATOMIC_RELAXED);
	return id;
}

static int take_or_search(struct near_shared_ids *s, struct near_worker *w)
{
	int id = shared_take(s, w);

	if (id >= 0)
		return id;
	near_lock_lock(&near__seats.lock);
	near__seats_search(s);
	near_lock_unlock(&near__seats.lock);
	id = shared_take(s, w);
	return id < 0 ? near__reason_set(s, id, "all ids are in use") : id;
}

/* ---- acquire ---- */

/* The data of an id, for this process. The caller stores the reason of an error. */
static int make_ready(struct near_shared_ids *s, unsigned id)
{
	int err = 0;

	if (near__shared_ids_is_ready(s, id))
		return 0;
	if (s->stride)
		err = near_region_populate(s->region, &s->object, id * s->stride, s->stride);
	if (err)
		return err;
	NEAR__BIT_SET(s->ready, id, __ATOMIC_RELAXED);
	return 0;
}

/* Of the worker that has taken it. */
static int shared_give(struct near_shared_ids *s, struct near_worker *w, unsigned id)
{
	int err = make_ready(s, id);

	if (err) {
		give_up(s, id, near_worker_must_repair(w));
		*w = (struct near_worker){0, 0};
		return near__reason_set(s, err, "there is no room for the data of another id");
	}
	shared_count(s, ALLOCATIONS, 1);
	if (line_of(s, id)->node1 != local_node1(s))
		shared_count(s, FOREIGN, 1);
	w->id1 = id + 1;
	if (near__id_count(&line_of(s, id)->taken) % NEAR__IDS_TRIM == 0)
		return near__shared_ids_renew(s, w);
	return (int)id;
}

static int ensure_seat(struct near_shared_ids *s)
{
	int err = 0;

	if (near__shared_ids_seat(s))
		return 0;
	near_lock_lock(&near__seats.lock);
	err = near__seat_take(s);
	near_lock_unlock(&near__seats.lock);
	return err;
}

/* What the CPU's cache has may not have been used by this process before. One that is in use leaves
 * the cache, so that the next release has room there. */
static int take_cached(struct near_shared_ids *s, struct near_worker *w)
{
	uint64_t *cache = near__shared_ids_cache(s);
	uint64_t id1 = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (id1 - 1 < s->ids && make_ready(s, (unsigned)id1 - 1) == 0 &&
	    near__shared_ids_try(s, w)) {
		if (near__id_count(&line_of(s, w->id1 - 1)->hits) % NEAR__IDS_TRIM == 0)
			return near__shared_ids_renew(s, w);
		return near_worker_id(w);
	}
	__atomic_store_n(cache, 0, __ATOMIC_RELAXED);
	return -EAGAIN;
}

int near__shared_ids_acquire_slow(struct near_shared_ids *s, struct near_worker *w)
{
	int err = ensure_seat(s), id;

	if (err)
		return err;
	id = take_cached(s, w);
	if (id >= 0)
		return id;
	id = take_or_search(s, w);
	return id < 0 ? id : shared_give(s, w, (unsigned)id);
}

/* ---- release ---- */

/* Release: pairs with the acquire of the next worker. */
void near__shared_ids_uncache(struct near_shared_ids *s, unsigned id)
{
	uint64_t *cache = near__shared_ids_cache(s);
	bool has_room = __atomic_load_n(cache, __ATOMIC_RELAXED) == 0 &&
			line_of(s, id)->node1 == local_node1(s);

	shared_disown(s, id, false);
	if (has_room) {
		__atomic_store_n(cache, id + 1, __ATOMIC_RELAXED);
		return;
	}
	shared_clear_bit(s, id);
	shared_count(s, EVICTIONS, 1);
}

/* ---- searches ---- */

/* Whether the id is free, and was not acquired since the search before. */
static bool is_unused(struct near__shared_id *line)
{
	uint64_t hits = __atomic_load_n(&line->hits, __ATOMIC_RELAXED);
	uint64_t seen = __atomic_exchange_n(&line->seen, hits, __ATOMIC_RELAXED);

	return __atomic_load_n(&line->owner, __ATOMIC_RELAXED) <= LEFT && hits == seen;
}

static void empty_caches(struct near_shared_ids *s)
{
	for (unsigned i = 0; i < near_cpus(); i++) {
		uint64_t id = __atomic_load_n(&s->caches[i * 8], __ATOMIC_RELAXED) - 1;

		if (id < s->ids && !(bits_of(s, (unsigned)id / 64, true) >> id % 64 & 1))
			__atomic_store_n(&s->caches[i * 8], 0, __ATOMIC_RELAXED);
	}
}

static void search_unused(struct near_shared_ids *s)
{
	uint64_t n = 0;

	for (unsigned i = 0; i * UINT64_C(64) < s->ids; i++) {
		for (uint64_t bits = bits_of(s, i, true); bits; bits &= bits - 1) {
			unsigned id = i * 64 + (unsigned)__builtin_ctzll(bits);

			if (!is_unused(line_of(s, id)))
				continue;
			shared_clear_bit(s, id);
			n++;
		}
	}
	if (n)
		empty_caches(s);
	shared_count(s, DISCARDS, n);
}

/* One in NEAR__IDS_TRIM acquires of an id. */
int near__shared_ids_renew(struct near_shared_ids *s, struct near_worker *w)
{
	unsigned id = w->id1 - 1;
	unsigned node1 = (unsigned)line_of(s, id)->node1;
	bool must_repair = near_worker_must_repair(w);
	int lower;

	near_lock_lock(&near__seats.lock);
	near__seats_search(s);
	near_lock_unlock(&near__seats.lock);
	search_unused(s);
	lower = take_below(s, w, id, node1, OWN_NODE, true);
	if (lower >= 0 && make_ready(s, (unsigned)lower) == 0) {
		give_up(s, id, must_repair);
		empty_caches(s); /* else the next acquire takes the old one again */
		return shared_give(s, w, (unsigned)lower);
	}
	if (lower >= 0) {
		give_up(s, (unsigned)lower, near_worker_must_repair(w));
		w->must_repair = must_repair;
	}
	return (int)id;
}

void near__shared_ids_misuse(const struct near_shared_ids *s, const struct near_worker *w,
			     const char *call)
{
	char line[160];
	int id = near_worker_id(w);

	if (id < 0)
		snprintf(line, sizeof(line), "%s: the worker has no id", call);
	else if ((uint64_t)id < s->ids && __atomic_load_n(&s->owners[id].owner, __ATOMIC_RELAXED) ==
						  near__shared_ids_tag(s, w))
		snprintf(line, sizeof(line), "%s: the worker has id %d already", call, id);
	else
		snprintf(line, sizeof(line), "%s: id %d is not this worker's", call, id);
	near__die(line);
}
