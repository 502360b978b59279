/* SPDX-License-Identifier: MIT */
/* The row of rculfhash, with liburcu's flavour memb; readers are inline functions. */
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#define URCU_API_MAP /* names without the flavour */
#define MAP_CHOOSE 0
#include "map/rows.h"

#include <stddef.h>
#include <urcu/urcu-memb.h>

#include <urcu/rculfhash.h>

struct object {
	struct cds_lfht_node node;
	uint64_t key, value;
	struct rcu_head rcu;
};

static struct cds_lfht *map;

static int is(struct cds_lfht_node *n, const void *key)
{
	return caa_container_of(n, struct object, node)->key == *(const uint64_t *)key;
}

static void urcu_begin(void)
{
	/* Of one size: it resizes in a thread of its own, which would be measured. */
	map = cds_lfht_new(1 << 17, 1 << 17, 0, 0, NULL);
	if (!map)
		window_give_up("error", "not enough memory");
}

static void urcu_begin_thread(void) { rcu_register_thread(); }
static void urcu_end_thread(void) { rcu_unregister_thread(); }

static inline bool urcu_read(uint64_t key)
{
	struct cds_lfht_iter i;
	struct cds_lfht_node *n;
	bool right;

	rcu_read_lock();
	cds_lfht_lookup(map, hash_of(key), is, &key, &i);
	n = cds_lfht_iter_get_node(&i);
	right = n && caa_container_of(n, struct object, node)->value == value_of(key);
	rcu_read_unlock();
	return right;
}

static void free_object(struct rcu_head *head) { free(caa_container_of(head, struct object, rcu)); }

static void urcu_write(uint64_t key)
{
	struct object *o = map_object(sizeof(*o));
	struct cds_lfht_node *old;

	o->key = key;
	o->value = value_of(key);
	cds_lfht_node_init(&o->node);
	rcu_read_lock();
	old = cds_lfht_add_replace(map, hash_of(key), is, &key, &o->node);
	rcu_read_unlock();
	if (old)
		call_rcu(&caa_container_of(old, struct object, node)->rcu, free_object);
}

__attribute__((visibility("default"))) extern const struct window_row map_row;
MAP_ROW(map_row, "urcu", urcu)
