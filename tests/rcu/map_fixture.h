/* SPDX-License-Identifier: MIT */
/* A near_rcu_map for each test, of a program that is linked with --wrap=calloc and
 * --wrap=posix_memalign. */
#ifndef NEARCPU_TESTS_MAP_FIXTURE_H
#define NEARCPU_TESTS_MAP_FIXTURE_H

#include "map_items.h"
#include "rcu/map.h"

#define SMALL 10

static struct near_rcu rcu;
static struct near_rcu_map map;
static uint64_t hash_mask, hash_factor; /* 0: all keys have one hash */

static long allocations_left = -1; /* -1: no limit */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_posix_memalign(void **p, size_t align, size_t size);
int __wrap_posix_memalign(void **p, size_t align, size_t size);

static bool may_allocate(void)
{
	errno = allocations_left ? errno : ENOMEM;
	return allocations_left < 0 || (allocations_left && allocations_left--);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return may_allocate() ? __real_calloc(n, size) : NULL;
}

int __wrap_posix_memalign(void **p, size_t align, size_t size)
{
	return may_allocate() ? __real_posix_memalign(p, align, size) : ENOMEM;
}

static uint64_t masked_hash(const void *key)
{
	return (item_hash(key) & hash_mask) * hash_factor;
}

static int make(void **state)
{
	const struct near_rcu_map_options small = {.entries = SMALL};

	hash_mask = UINT64_MAX;
	hash_factor = 1;
	allocations_left = -1;
	CHECK(near_rcu_init(&rcu, NULL) == 0);
	KEEPS_ERRNO(CHECK(near_rcu_map_init(&map, &rcu, masked_hash, item_is, &small) == 0));
	return 0;
}

static void empty(void)
{
	struct near_rcu_map_iterator i;
	struct near_rcu_map_entry *e;
	near_rcu_token t = near_rcu_enter(&rcu);

	near_rcu_map_begin(&map, &i);
	while ((e = near_rcu_map_next(&i))) {
		CHECK(near_rcu_map_remove(&map, e) == 0);
		near_rcu_call(&rcu, &item_of(e)->rcu, item_free, sizeof(struct item));
	}
	near_rcu_exit(&rcu, t);
	CHECK(near_rcu_map_count(&map) == 0);
}

static int destroy(void **state)
{
	allocations_left = -1;
	empty();
	KEEPS_ERRNO(near_rcu_map_destroy(&map));
	near_rcu_destroy(&rcu);
	return 0;
}

static struct item *find_key(uint64_t key)
{
	near_rcu_token t = near_rcu_enter(&rcu);
	struct near_rcu_map_entry *e = near_rcu_map_lookup(&map, &key);

	CHECK(e == near_rcu_map_find(&map, masked_hash(&key), &key, item_is));
	near_rcu_exit(&rcu, t);
	CHECK(!e || item_of(e)->check == ~key);
	return e ? item_of(e) : NULL;
}

static void insert(uint64_t from, uint64_t to)
{
	for (; from < to; from++) {
		struct item *i = item_make(from);

		KEEPS_ERRNO(CHECK(near_rcu_map_insert_unique(&map, &i->entry, &from, NULL) == 0));
	}
}

static inline void remove_keys(uint64_t from, uint64_t to)
{
	for (; from < to; from++) {
		struct near_rcu_map_entry *e;

		KEEPS_ERRNO(e = near_rcu_map_remove_key(&map, &from));
		CHECK(e);
		near_rcu_call(&rcu, &item_of(e)->rcu, item_free, sizeof(struct item));
	}
}

/* Exactly these keys are there. */
static inline void expect(uint64_t from, uint64_t to)
{
	struct near_rcu_map_iterator i;
	struct near_rcu_map_entry *e;
	char *seen = calloc(to + 1, 1);
	uint64_t n = 0;
	near_rcu_token t = near_rcu_enter(&rcu);

	CHECK(seen);
	near_rcu_map_begin(&map, &i);
	for (; (e = near_rcu_map_next(&i)); n++) {
		CHECK(item_of(e)->key >= from && item_of(e)->key < to);
		CHECK(!seen[item_of(e)->key]++);
	}
	CHECK(!near_rcu_map_next(&i));
	near_rcu_exit(&rcu, t);
	free(seen);
	CHECK(n == to - from);
	CHECK(near_rcu_map_count(&map) == n);
	for (uint64_t key = from; key < to; key++)
		CHECK(find_key(key));
	CHECK(!find_key(to) && !find_key(from - 1));
}

static struct near_rcu_map_stats status(void)
{
	struct near_rcu_map_stats s;

	memset(&s, 0x5a, sizeof(s));
	KEEPS_ERRNO(CHECK(near_rcu_map_stats(&map, &s, sizeof(s)) == 0));
	return s;
}

/* Begins a resize and makes no step of it; a change makes one. */
static inline void begin_resize(size_t entries)
{
	struct near__rcu_map_table *t = near__rcu_map_current(&map);
	struct near__rcu_map_table *next =
		near__rcu_map_allocate(near__rcu_map_bits(&map, entries));

	CHECK(next && !t->next);
	map.helped = 0;
	t->next = near__rcu_map_word(next);
}

#endif
