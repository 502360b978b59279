/* SPDX-License-Identifier: MIT */
/* near_rcu_map under load: threads search, insert, replace and remove the keys of one map, iterate,
 * sweep, resize and fork. Keys that nobody removes are always found, once; versions of a key never
 * go back, and none of the changes by replace_if is lost; what is found is not freed. With
 * NEAR_STRESS_SECONDS, again and again. */
#include "map_items.h"
#include "stress.h"
#include "team.h"

#define KEYS 3000u /* even ones always stay */
#define WRITERS 3u /* each changes the keys whose number modulo WRITERS is its own */
#define READERS 3u /* the last one iterates */
#define CHANGES 20000u
#define FORKS 10u

static struct near_rcu rcu;
static struct near_rcu_map map;
static struct team readers, writers;

static void give_up(struct near_rcu_map_entry *e)
{
	near_rcu_call(&rcu, &item_of(e)->rcu, item_free, sizeof(struct item));
}

static void replace(uint64_t key, uint64_t version)
{
	struct item *i = item_make(key);
	struct near_rcu_map_entry *old;
	int r;

	i->version = version;
	r = version % 2 ? near_rcu_map_replace(&map, &i->entry, &key, &old)
			: near_rcu_map_put(&map, &i->entry, &key, &old);
	CHECK(r == 0 && old);
	CHECK(item_of(old)->key == key && item_of(old)->version < version);
	give_up(old);
}

/* Any thread changes this one, whose version is the number of changes. */
#define SHARED (2 * KEYS)

static void count_up(void)
{
	uint64_t key = SHARED;
	struct item *copy = item_make(key);
	near_rcu_token t = near_rcu_enter(&rcu);
	struct near_rcu_map_entry *old;

	do {
		old = near_rcu_map_lookup(&map, &key);
		CHECK(old && item_of(old)->check == ~key);
		copy->version = item_of(old)->version + 1;
	} while (near_rcu_map_replace_if(&map, old, &copy->entry));
	near_rcu_exit(&rcu, t);
	give_up(old);
}

static void toggle(uint64_t key)
{
	struct near_rcu_map_entry *e = near_rcu_map_remove_key(&map, &key);
	struct item *i;

	if (e) {
		give_up(e);
		return;
	}
	i = item_make(key);
	CHECK(near_rcu_map_insert_unique(&map, &i->entry, &key, &e) == 0);
}

static void write_some(unsigned number)
{
	uint64_t random = number + 1;

	for (unsigned n = unit_scale(CHANGES); n; n--) {
		uint64_t key = unit_random(&random) % (KEYS / WRITERS) * WRITERS + number;

		if (key % 2)
			toggle(key);
		else
			replace(key, CHANGES + 1 - n);
		if (n % 4 == 0)
			count_up();
		/* Many more for a while, so that it grows and shrinks. */
		if (n % 2048 == 0)
			for (unsigned pass = 0; pass < 2; pass++)
				for (key = 0; key < 4 * KEYS; key++)
					toggle((key + KEYS) * 2 * WRITERS + 2 * number + 1);
		if (n % 1500 == 0)
			CHECK(near_rcu_map_resize(&map, n % 4 ? 10 : 4 * KEYS) == 0);
	}
}

static void iterate(void)
{
	static unsigned char seen[KEYS];
	struct near_rcu_map_iterator i;
	struct near_rcu_map_entry *e;
	near_rcu_token t = near_rcu_enter(&rcu);

	memset(seen, 0, sizeof(seen));
	near_rcu_map_begin(&map, &i);
	while ((e = near_rcu_map_next(&i))) {
		CHECK(item_of(e)->check == ~item_of(e)->key);
		if (item_of(e)->key % 2 == 0 && item_of(e)->key < KEYS)
			CHECK(!seen[item_of(e)->key]++);
	}
	for (unsigned key = 0; key < KEYS; key += 2)
		CHECK(seen[key]);
	near_rcu_exit(&rcu, t);
}

static void sweep_visit(struct near_rcu_map_entry *e, void *seen)
{
	uint64_t key = item_of(e)->key;

	CHECK(item_of(e)->check == ~key);
	if (key % 2 == 0 && key < KEYS)
		CHECK(!((unsigned char *)seen)[key]++);
}

static void sweep(void)
{
	static unsigned char seen[KEYS];
	uint64_t cursor = 0;

	memset(seen, 0, sizeof(seen));
	do
		cursor = near_rcu_map_sweep(&map, cursor, 100, sweep_visit, seen);
	while (cursor);
	for (unsigned key = 0; key < KEYS; key += 2)
		CHECK(seen[key]);
}

static void find_key(uint64_t key, uint64_t *version)
{
	near_rcu_token t = near_rcu_enter(&rcu);
	struct near_rcu_map_entry *e = near_rcu_map_find(&map, key, &key, item_is);

	CHECK(e || key % 2);
	if (e) {
		CHECK(item_of(e)->check == ~key);
		CHECK(key % 2 || item_of(e)->version >= *version);
		*version = item_of(e)->version;
	}
	near_rcu_exit(&rcu, t);
}

static void read_some(unsigned number)
{
	static __thread uint64_t versions[KEYS];
	uint64_t random = number + 100;

	while (team_continues()) {
		if (number == READERS - 1) {
			iterate();
			sweep();
		}
		for (unsigned n = 0; n < 100; n++) {
			uint64_t key = unit_random(&random) % KEYS;

			find_key(key, &versions[key]);
		}
	}
}

static void check_child(void *arg)
{
	for (uint64_t key = 0; key < KEYS; key++) {
		uint64_t none = 0;

		find_key(key, &none);
	}
	iterate();
	if (UNIT_CHILD_ALLOCATES) {
		toggle(1);
		toggle(7 * KEYS);
		CHECK(near_rcu_map_resize(&map, 20 * KEYS) == 0);
	}
	CHECK(near_rcu_map_count(&map) >= KEYS / 2);
}

static void clear_visit(struct near_rcu_map_entry *e, void *unused)
{
	give_up(e);
}

static void run_once(void)
{
	const struct near_rcu_map_options few = {.entries = 10};
	uint64_t changes = 0;

	assert_int_equal(near_rcu_init(&rcu, NULL), 0);
	assert_int_equal(near_rcu_map_init(&map, &rcu, item_hash, item_is, &few), 0);
	for (uint64_t key = 0; key < KEYS; key += 2)
		toggle(key);
	toggle(SHARED);
	team_start(&writers, WRITERS, write_some);
	team_start(&readers, READERS, read_some);
	for (unsigned n = 0; n < FORKS && !UNIT_THREAD_SANITIZER; n++) {
		assert_int_equal(unit_wait(unit_fork(check_child, NULL), NULL), 0);
		usleep(1000);
	}
	team_join(&writers);
	team_stop(&readers);
	find_key(SHARED, &changes);
	assert_int_equal(changes, WRITERS * (unit_scale(CHANGES) / 4));
	near_rcu_map_clear(&map, clear_visit, NULL);
	assert_int_equal(near_rcu_map_count(&map), 0);
	near_rcu_map_destroy(&map);
	near_rcu_destroy(&rcu);
}

static void run(void **state)
{
	stress_run(run_once);
}

UNIT_MAIN(run)
