/* SPDX-License-Identifier: MIT */
/* near_rcu_map: changes; src/rcu/map.h has the argument. */
#include "rcu/map.h"

#include <stddef.h>

enum mode { ALWAYS, UNIQUE, REPLACE, PUT };

struct change {
	struct near_rcu_map_entry *e;
	const void *key;
	const struct near_rcu_map_entry *expected; /* NULL: any that has the key */
	enum mode mode;
	uint64_t hash, mixed;
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
		at = map_find(m, c->expected, c->hash, c->key);
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

static int map_run(struct near_rcu_map *m, struct change *c, uint64_t hash)
{
	struct near__rcu_map_stripe *s;
	enum near__rcu_map_need then;
	int r;

	c->e->hash = c->hash = hash;
	c->mixed = near__rcu_map_mix(hash);
	s = near__rcu_map_stripe(m, c->mixed);
	for (;;) {
		near_lock_lock(&s->lock);
		r = map_change(m, s, c);
		then = map_need(m, s);
		near_lock_unlock(&s->lock);
		if (r != -EAGAIN)
			break;
		r = near__rcu_map_get_spares(&c->spares, 1);
		if (r)
			break;
	}
	near__rcu_map_free_spares(c->spares);
	if (!r && then != NEAR__RCU_MAP_SHRINK)
		near__rcu_map_react(m, then);
	return r;
}

static int change_key(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key,
		      enum mode mode, struct near_rcu_map_entry **found)
{
	struct change c = {.e = e, .key = key, .mode = mode};
	int r = map_run(m, &c, m->hash(key));

	if (found)
		*found = c.found;
	return r;
}

int near_rcu_map_insert(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key)
{
	return change_key(m, e, key, ALWAYS, NULL);
}

int near_rcu_map_insert_unique(struct near_rcu_map *m, struct near_rcu_map_entry *e,
			       const void *key, struct near_rcu_map_entry **existing)
{
	return change_key(m, e, key, UNIQUE, existing);
}

int near_rcu_map_replace(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key,
			 struct near_rcu_map_entry **old)
{
	return change_key(m, e, key, REPLACE, old);
}

int near_rcu_map_replace_if(struct near_rcu_map *m, struct near_rcu_map_entry *expected,
			    struct near_rcu_map_entry *e)
{
	return map_run(m, &(struct change){.e = e, .expected = expected, .mode = REPLACE},
		       expected->hash);
}

int near_rcu_map_put(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key,
		     struct near_rcu_map_entry **old)
{
	return change_key(m, e, key, PUT, old);
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

/* `mine` is in no table until insert_unique has its lock, and there the key is looked up again: of
 * several threads one inserts, and the others find its entry. */
int near_rcu_map_get_or_insert(struct near_rcu_map *m, const void *key,
			       near_rcu_map_construct *construct, near_rcu_map_visit *destroy,
			       void *argument, struct near_rcu_map_entry **e)
{
	struct near_rcu_map_entry *mine = NULL;
	int r;

	*e = near_rcu_map_lookup(m, key);
	if (*e)
		return 0;
	r = construct(&mine, key, argument);
	if (r)
		return r;
	r = near_rcu_map_insert_unique(m, mine, key, e);
	if (!r) {
		*e = mine;
		return 1;
	}
	destroy(mine, argument);
	return r == -EEXIST ? 0 : r;
}
