/* SPDX-License-Identifier: MIT */
/* near_rcu_map: iteration; src/rcu/map.h has the argument. */
#include "rcu/map.h"

#include <string.h>

/* The bucket of i->first, as a lookup finds it, and up to which hash it is to be believed. */
static void find_bucket(struct near_rcu_map_iterator *i)
{
	uintptr_t table = near_rcu_dereference(i->map->table);

	i->last = UINT64_MAX;
	for (;;) {
		uint64_t last = i->first | (((uint64_t)1 << (table & 63)) - 1);

		i->last = last < i->last ? last : i->last;
		i->bucket = near__rcu_map_bucket(table, i->first);
		/* Acquire: as in a lookup. */
		if (!(__atomic_load_n(&i->bucket->control, __ATOMIC_ACQUIRE) & NEAR__RCU_MAP_MOVED))
			break;
		table = near_rcu_dereference(near__rcu_map_table(table)->next);
	}
	i->slot = 0;
}

void near_rcu_map_begin(const struct near_rcu_map *m, struct near_rcu_map_iterator *i)
{
	memset(i, 0, sizeof(*i));
	i->map = m;
	find_bucket(i);
}

/* The bucket has all entries of the key that were in the map when it moved, if it has since. */
void near_rcu_map_begin_key(const struct near_rcu_map *m, const void *key,
			    struct near_rcu_map_iterator *i)
{
	memset(i, 0, sizeof(*i));
	i->map = m;
	i->of_key = true;
	i->key = key;
	i->hash = m->hash(key);
	i->first = near__rcu_map_mix(i->hash);
	find_bucket(i);
	i->last = UINT64_MAX;
}

static bool is_meant(const struct near_rcu_map_iterator *i, const struct near_rcu_map_entry *e)
{
	if (i->of_key)
		return e->hash == i->hash && i->map->equal(e, i->key);
	return near__rcu_map_mix(e->hash) - i->first <= i->last - i->first;
}

/* The next entry of the bucket, or NULL. */
static struct near_rcu_map_entry *next_of_bucket(struct near_rcu_map_iterator *i)
{
	for (; i->bucket; i->bucket = near_rcu_dereference(i->bucket->more), i->slot = 0)
		while (i->slot < NEAR__RCU_MAP_CELLS) {
			struct near_rcu_map_entry *e =
				near__rcu_map_load(i->bucket->slots[i->slot++]);

			if (!e)
				continue;
			NEAR__TSAN_ACQUIRE(&i->bucket->slots[i->slot - 1]);
			if (is_meant(i, e))
				return e;
		}
	return NULL;
}

struct near_rcu_map_entry *near_rcu_map_next(struct near_rcu_map_iterator *i)
{
	struct near_rcu_map_entry *e;

	while (!(e = next_of_bucket(i)) && i->last != UINT64_MAX) {
		i->first = i->last + 1;
		find_bucket(i);
	}
	return e;
}

/* The cursor is the first mixed hash that was not passed. Between two sections buckets may move:
 * the next one begins with the bucket of that hash, whatever its size is, and of that leaves out
 * what is below. */
uint64_t near_rcu_map_sweep(struct near_rcu_map *m, uint64_t cursor, size_t most,
			    near_rcu_map_visit *visit, void *argument)
{
	struct near_rcu_map_iterator i = {.map = m};
	size_t passed = 0;

	do {
		near_rcu_token t = near_rcu_enter(m->rcu);
		struct near_rcu_map_entry *e;

		i.first = cursor;
		find_bucket(&i);
		for (passed++; (e = next_of_bucket(&i)); passed++)
			visit(e, argument);
		near_rcu_exit(m->rcu, t);
		cursor = i.last + 1;
	} while (cursor && passed < most);
	return cursor;
}

struct clearing {
	struct near_rcu_map *map;
	near_rcu_map_visit *removed;
	void *argument;
};

static void clear_entry(struct near_rcu_map_entry *e, void *clearing)
{
	const struct clearing *c = clearing;

	if (!near_rcu_map_remove(c->map, e))
		c->removed(e, c->argument);
}

void near_rcu_map_clear(struct near_rcu_map *m, near_rcu_map_visit *removed, void *argument)
{
	struct clearing c = {m, removed, argument};

	near_rcu_map_sweep(m, 0, SIZE_MAX, clear_entry, &c);
}
