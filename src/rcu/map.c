/* SPDX-License-Identifier: MIT */
/* near_rcu_map: changes; src/rcu/map.h has the argument. */
#include "rcu/map.h"

#include <stddef.h>

enum mode { ALWAYS, UNIQUE, REPLACE, PUT };

struct change {
	struct near_rcu_map_entry *e;
	const void *key;
	uint64_t hash, mixed;
	enum mode mode;
	struct near_rcu_map_entry *found; /* what has the key */
	struct near__rcu_map_bucket *spares;
};

struct place {
	struct near__rcu_map_bucket *bucket; /* NULL: none */
	unsigned slot;
};

/* ---- with the stripe's lock ---- */

/* The entry `e`; or, if it is NULL, one that has the key. */
static struct place map_find(const struct near_rcu_map *m, const struct near_rcu_map_entry *e,
			     uint64_t hash, const void *key)
{
	uint64_t mixed = near__rcu_map_mix(hash), tag = near__rcu_map_tag(mixed);
	struct near__rcu_map_table *t;
	struct near__rcu_map_bucket *b = near__rcu_map_find_bucket(m, mixed, &t);

	for (; b; b = b->more)
		for (unsigned i = 0; i < NEAR__RCU_MAP_CELLS; i++) {
			const struct near_rcu_map_entry *at = b->slots[i];

			if ((b->control >> 8 * i & 0xff) == tag &&
			    (e ? at == e : at->hash == hash && m->equal(at, key)))
				return (struct place){b, i};
		}
	return (struct place){NULL, 0};
}

static enum near__rcu_map_need map_need(const struct near_rcu_map *m,
					const struct near__rcu_map_stripe *s)
{
	const struct near__rcu_map_table *t = near__rcu_map_current(m);
	uint64_t buckets = (uint64_t)1 << (t->bits - m->stripe_bits);

	if (__atomic_load_n(&t->next, __ATOMIC_RELAXED)) /* nothing is loaded from it */
		return NEAR__RCU_MAP_HELP;
	if (s->count > NEAR__RCU_MAP_FULL * buckets)
		return NEAR__RCU_MAP_GROW;
	if (s->count < buckets / 2 &&
	    t->bits > __atomic_load_n(&m->floor_bits, __ATOMIC_RELAXED)) /* a hint */
		return NEAR__RCU_MAP_SHRINK;
	return NEAR__RCU_MAP_NOTHING;
}

/* Relaxed: others add up all stripes' counts without the locks, approximately. */
static void add_to_count(struct near__rcu_map_stripe *s, int64_t n)
{
	__atomic_store_n(&s->count, s->count + (uint64_t)n, __ATOMIC_RELAXED);
}

/* -EAGAIN: it takes a spare. */
static int map_change(struct near_rcu_map *m, struct near__rcu_map_stripe *s, struct change *c)
{
	struct near__rcu_map_table *t;
	struct place at = {NULL, 0};

	if (c->mode != ALWAYS)
		at = map_find(m, NULL, c->hash, c->key);
	c->found = at.bucket ? at.bucket->slots[at.slot] : NULL;
	if (at.bucket && c->mode == UNIQUE)
		return -EEXIST;
	if (!at.bucket && c->mode == REPLACE)
		return -ENOENT;
	if (at.bucket) {
		near__rcu_map_publish(at.bucket->slots[at.slot], c->e);
		return 0;
	}
	near__rcu_map_find_bucket(m, c->mixed, &t);
	if (!near__rcu_map_add(t, c->e, c->mixed, &c->spares))
		return -EAGAIN;
	add_to_count(s, 1);
	return 0;
}

static void take_out(struct near__rcu_map_stripe *s, struct place at)
{
	near__rcu_map_clear(at.bucket, at.slot);
	add_to_count(s, -1);
}

/* ---- with the lock for a step ---- */

static int map_run(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key,
		   enum mode mode, struct near_rcu_map_entry **found)
{
	uint64_t hash = m->hash(key), mixed = near__rcu_map_mix(hash);
	struct near__rcu_map_stripe *s = near__rcu_map_stripe(m, mixed);
	struct change c = {e, key, hash, mixed, mode, NULL, NULL};
	enum near__rcu_map_need then;
	int r;

	e->hash = hash;
	for (;;) {
		near_lock_lock(&s->lock);
		r = map_change(m, s, &c);
		then = map_need(m, s);
		near_lock_unlock(&s->lock);
		if (r != -EAGAIN)
			break;
		r = near__rcu_map_get_spares(&c.spares, 1);
		if (r)
			break;
	}
	near__rcu_map_free_spares(c.spares);
	if (found)
		*found = c.found;
	if (!r && then != NEAR__RCU_MAP_SHRINK)
		near__rcu_map_react(m, then);
	return r;
}

int near_rcu_map_insert(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key)
{
	return map_run(m, e, key, ALWAYS, NULL);
}

int near_rcu_map_insert_unique(struct near_rcu_map *m, struct near_rcu_map_entry *e,
			       const void *key, struct near_rcu_map_entry **existing)
{
	return map_run(m, e, key, UNIQUE, existing);
}

int near_rcu_map_replace(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key,
			 struct near_rcu_map_entry **old)
{
	return map_run(m, e, key, REPLACE, old);
}

int near_rcu_map_put(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key,
		     struct near_rcu_map_entry **old)
{
	return map_run(m, e, key, PUT, old);
}

/* `e` may be NULL. */
static struct near_rcu_map_entry *remove_found(struct near_rcu_map *m,
					       const struct near_rcu_map_entry *e, uint64_t hash,
					       const void *key)
{
	struct near__rcu_map_stripe *s = near__rcu_map_stripe(m, near__rcu_map_mix(hash));
	struct near_rcu_map_entry *found = NULL;
	enum near__rcu_map_need then;
	struct place at;

	near_lock_lock(&s->lock);
	at = map_find(m, e, hash, key);
	if (at.bucket) {
		found = at.bucket->slots[at.slot];
		take_out(s, at);
	}
	then = map_need(m, s);
	near_lock_unlock(&s->lock);
	if (found && then != NEAR__RCU_MAP_GROW)
		near__rcu_map_react(m, then);
	return found;
}

int near_rcu_map_remove(struct near_rcu_map *m, struct near_rcu_map_entry *e)
{
	return remove_found(m, e, e->hash, NULL) ? 0 : -ENOENT;
}

struct near_rcu_map_entry *near_rcu_map_remove_key(struct near_rcu_map *m, const void *key)
{
	return remove_found(m, NULL, m->hash(key), key);
}
