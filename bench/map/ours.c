/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-maps: ours, and a table of chains under a lock. */
#include "map/rows.h"

#include <nearcpu/rcu_map64.h>
#include <nearcpu/rwlock.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

/* ---- the keys ---- */

uint32_t map_draws[DRAWS];

#define ZIPF .99

static uint32_t pick(const double *sums, double at)
{
	uint32_t low = 0, high = KEYS - 1;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (sums[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void draw(double exponent, unsigned writes)
{
	unsigned short seed[3] = {1, 2, 3};
	double *sums = malloc(KEYS * sizeof(*sums)), sum = 0;

	if (!sums)
		window_give_up("error", "not enough memory");
	for (uint32_t i = 0; i < KEYS; i++)
		sums[i] = sum += pow(i + 1, -exponent);
	for (uint32_t i = 0; i < DRAWS; i++) {
		/* Frequent keys are not neighbours. */
		uint32_t key = (uint64_t)pick(sums, erand48(seed) * sum) * 61403 % KEYS + 1;

		map_draws[i] = key | (erand48(seed) * 1000 < writes ? WRITES : 0);
	}
	free(sums);
}

/* uniform-N or zipf-N: N writes of 1,000. */
bool map_choose(const char *name)
{
	bool zipf = strncmp(name, "zipf-", 5) == 0;
	unsigned writes;
	char rest;

	if ((!zipf && strncmp(name, "uniform-", 8) != 0) ||
	    sscanf(strchr(name, '-'), "-%u%c", &writes, &rest) != 1 || writes > 1000)
		return false;
	draw(zipf ? ZIPF : 0, writes);
	return true;
}

/* ---- near_rcu_map ---- */

struct object {
	struct near_rcu_map_entry entry;
	uint64_t key, value;
	struct near_rcu_head rcu;
};

static struct near_rcu rcu;
static struct near_rcu_map map;

static uint64_t key_hash(const void *key) { return hash_of(*(const uint64_t *)key); }

static inline bool is(const struct near_rcu_map_entry *e, const void *key)
{
	return ((const struct object *)e)->key == *(const uint64_t *)key;
}

/* As in the others, the table is made for its keys. */
static void near_begin(void)
{
	const struct near_rcu_map_options options = {.entries = KEYS};

	if (near_rcu_init(&rcu, NULL) || near_rcu_map_init(&map, &rcu, key_hash, is, &options))
		window_give_up("error", "not enough memory");
}

static void near_begin_thread(void) {}

static void near_end_thread(void) {}

static inline bool near_read(uint64_t key)
{
	near_rcu_token t = near_rcu_enter(&rcu);
	struct near_rcu_map_entry *e = near_rcu_map_find(&map, hash_of(key), &key, is);
	bool right = e && ((struct object *)e)->value == value_of(key);

	near_rcu_exit(&rcu, t);
	return right;
}

static void free_object(struct near_rcu_head *head)
{
	free((char *)head - offsetof(struct object, rcu));
}

static void near_write(uint64_t key)
{
	struct object *o = map_object(sizeof(*o));
	struct near_rcu_map_entry *old;

	o->key = key;
	o->value = value_of(key);
	if (near_rcu_map_put(&map, &o->entry, &key, &old))
		abort();
	if (old)
		near_rcu_call(&rcu, &((struct object *)old)->rcu, free_object, sizeof(*o));
}

MAP_ROW(row_near, "near", near)

/* ---- near_rcu_map64 ---- */

static struct near_rcu rcu64;
static struct near_rcu_map64 map64;

static void near64_begin(void)
{
	const struct near_rcu_map64_options options = {.entries = KEYS};

	if (near_rcu_init(&rcu64, NULL) || near_rcu_map64_init(&map64, &rcu64, &options))
		window_give_up("error", "not enough memory");
}

static void near64_begin_thread(void) {}

static void near64_end_thread(void) {}

static inline bool near64_read(uint64_t key)
{
	return near_rcu_map64_get(&map64, key) == value_of(key);
}

/* There is no object. */
static void near64_write(uint64_t key)
{
	if (near_rcu_map64_put(&map64, key, value_of(key), NULL))
		abort();
}

MAP_ROW(row_near64, "near64", near64)

/* ---- chains under a lock ---- */

struct node {
	struct node *next;
	uint64_t key, value;
};

#define CHAINS (1u << 17)
static struct node *chains[CHAINS];

static inline bool map_find(uint64_t key)
{
	const struct node *n = chains[hash_of(key) % CHAINS];

	while (n && n->key != key)
		n = n->next;
	return n && n->value == value_of(key);
}

static struct node *node_replace(struct node *new)
{
	struct node **at = &chains[hash_of(new->key) % CHAINS], *old;

	while (*at && (*at)->key != new->key)
		at = &(*at)->next;
	old = *at;
	new->next = old ? old->next : NULL;
	*at = new;
	return old;
}

static struct node *make_node(uint64_t key)
{
	struct node *n = map_object(sizeof(*n));

	n->key = key;
	n->value = value_of(key);
	return n;
}

#define LOCKED_ROW(row, label, x, take_read, end_read, take_write, end_write)                      \
	static inline bool x##_read(uint64_t key)                                                  \
	{                                                                                          \
		bool found;                                                                        \
                                                                                                   \
		take_read;                                                                         \
		found = map_find(key);                                                             \
		end_read;                                                                          \
		return found;                                                                      \
	}                                                                                          \
	static void x##_write(uint64_t key)                                                        \
	{                                                                                          \
		struct node *n = make_node(key);                                                   \
                                                                                                   \
		take_write;                                                                        \
		n = node_replace(n);                                                               \
		end_write;                                                                         \
		free(n);                                                                           \
	}                                                                                          \
	MAP_ROW(row, label, x)

static pthread_mutex_t mutex __attribute__((aligned(LINE))) = PTHREAD_MUTEX_INITIALIZER;
#define mutex_begin()
#define mutex_begin_thread()
#define mutex_end_thread()
LOCKED_ROW(row_mutex, "mutex", mutex, pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex),
	   pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex))

static struct near_rwlock rwlock __attribute__((aligned(LINE)));

static void rwlock_begin(void)
{
	if (near_rwlock_init(&rwlock, NULL))
		window_give_up("error", "not enough memory");
}

#define rwlock_begin_thread()
#define rwlock_end_thread()
LOCKED_ROW(row_rwlock, "near-rwlock", rwlock, near_rwlock_read_lock(&rwlock),
	   near_rwlock_read_unlock(&rwlock), near_rwlock_write_lock(&rwlock),
	   near_rwlock_write_unlock(&rwlock))
