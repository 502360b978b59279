/* SPDX-License-Identifier: MIT */
/* What the tests of near_rcu_map put into one. */
#ifndef NEARCPU_TESTS_MAP_ITEMS_H
#define NEARCPU_TESTS_MAP_ITEMS_H

#include <nearcpu/rcu_map.h>

#include "unit.h"

struct item {
	struct near_rcu_map_entry entry; /* the first member */
	struct near_rcu_head rcu;
	uint64_t key;
	uint64_t check; /* ~key, until it is freed */
	uint64_t version;
};

static inline struct item *item_of(struct near_rcu_map_entry *e)
{
	return (struct item *)e;
}

static inline uint64_t item_hash(const void *key)
{
	return *(const uint64_t *)key;
}

static inline bool item_is(const struct near_rcu_map_entry *e, const void *key)
{
	return ((const struct item *)e)->key == *(const uint64_t *)key;
}

static inline struct item *item_make(uint64_t key)
{
	struct item *i = malloc(sizeof(*i));

	CHECK(i);
	memset(i, 0x5a, sizeof(*i));
	i->key = key;
	i->check = ~key;
	i->version = 0;
	return i;
}

static inline void item_free(struct near_rcu_head *head)
{
	struct item *i = (struct item *)((char *)head - offsetof(struct item, rcu));

	CHECK(i->check == ~i->key);
	i->check = 0;
	free(i);
}

#endif
