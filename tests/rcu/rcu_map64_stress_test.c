/* SPDX-License-Identifier: MIT */
/* near_rcu_map64 under load: threads insert, replace and remove the keys of one map while it grows,
 * shrinks, is swept, and the process forks. Keys that nobody removes are always found, and a sweep
 * finds them once; their values never go back; none of the changes by replace is lost; of several
 * threads that insert or remove a key one succeeds. With NEAR_STRESS_SECONDS, again and again. */
#include <nearcpu/rcu_map64.h>

#include "stress.h"
#include "team.h"

#define KEYS 3000u /* even ones always stay; 1 is counted up by all */
#define WRITERS 3u /* each changes the keys whose number modulo WRITERS is its own */
#define READERS 3u /* the last one sweeps */
#define CHANGES 30000u
#define CONTESTED 50u /* keys from 2 * KEYS on, which all insert and remove */
#define FORKS 10u

static struct near_rcu rcu;
static struct near_rcu_map64 map;
static struct team readers, writers;
static int64_t contested[CONTESTED]; /* insertions less removals */

/* Even keys have a value that only grows; others have the key. */
static bool is_right(uint64_t key, uint64_t value)
{
	return key % 2 == 0 || key == 1 || value == key;
}

static void count_up(void)
{
	uint64_t value = near_rcu_map64_get(&map, 1);
	int r;

	do {
		CHECK(value);
		r = near_rcu_map64_replace(&map, 1, &value, value + 1);
	} while (r == -ENOENT);
	CHECK(r == 0);
}

static void toggle(uint64_t key)
{
	uint64_t value = near_rcu_map64_remove(&map, key);

	CHECK(!value || value == key);
	if (!value)
		CHECK(near_rcu_map64_insert(&map, key, key, NULL) == 0);
}

static void contest(unsigned i, unsigned n)
{
	uint64_t key = 2 * KEYS + 2 * i + 1;
	int64_t change;

	if (n % 3 == 0)
		change = near_rcu_map64_insert(&map, key, key, NULL) == 0;
	else if (n % 3 == 1)
		change = -(near_rcu_map64_remove(&map, key) == key);
	else
		change = -(near_rcu_map64_remove_if(&map, key, key) == 0);
	__atomic_fetch_add(&contested[i], change, __ATOMIC_RELAXED);
}

static void write_some(unsigned number)
{
	uint64_t random = number + 1, old;

	for (unsigned n = unit_scale(CHANGES); n; n--) {
		uint64_t key = (1 + unit_random(&random) % (KEYS / WRITERS - 1)) * WRITERS + number;

		if (key % 2) {
			toggle(key);
		} else {
			CHECK(near_rcu_map64_put(&map, key, CHANGES + 2 - n, &old) == 0);
			CHECK(old && old < CHANGES + 2 - n);
		}
		if (n % 4 == 0)
			count_up();
		contest(unit_random(&random) % CONTESTED, n);
		/* Many more for a while, so that it grows. */
		if (n % 2048 == 0)
			for (unsigned pass = 0; pass < 2; pass++)
				for (key = 0; key < 4 * KEYS; key++)
					toggle((key + 2 * KEYS) * 2 * WRITERS + 2 * number + 1);
		if (n % 1500 == 0)
			CHECK(near_rcu_map64_resize(&map, n % 4 ? 10 : 4 * KEYS) == 0);
	}
}

static void visit(uint64_t key, uint64_t value, void *seen)
{
	CHECK(key && value && is_right(key, value));
	if (key % 2 == 0 && key < KEYS)
		CHECK(!((unsigned char *)seen)[key]++);
}

static void sweep(void)
{
	unsigned char seen[KEYS] = {0};
	uint64_t cursor = 0;

	do
		cursor = near_rcu_map64_sweep(&map, cursor, 100, visit, seen);
	while (cursor);
	for (unsigned key = 2; key < KEYS; key += 2)
		CHECK(seen[key]);
}

static void find_key(uint64_t key, uint64_t *last)
{
	uint64_t value = near_rcu_map64_get(&map, key);

	CHECK(is_right(key, value) || !value);
	if (key % 2 == 0) {
		CHECK(value && value >= *last);
		*last = value;
	}
}

static void read_some(unsigned number)
{
	static __thread uint64_t values[KEYS];
	uint64_t random = number + 100;

	while (team_continues()) {
		if (number == READERS - 1)
			sweep();
		for (unsigned n = 0; n < 100; n++) {
			uint64_t key = 1 + unit_random(&random) % (KEYS - 1);

			find_key(key, &values[key]);
		}
	}
}

static void check_child(void *arg)
{
	sweep();
	if (UNIT_CHILD_ALLOCATES) {
		toggle(3);
		toggle(2 * KEYS * WRITERS + 1);
		CHECK(near_rcu_map64_resize(&map, 20 * KEYS) == 0);
		sweep();
	}
}

static void run_once(void)
{
	uint64_t there = 0;

	assert_int_equal(near_rcu_init(&rcu, NULL), 0);
	assert_int_equal(near_rcu_map64_init(&map, &rcu, NULL), 0);
	memset(contested, 0, sizeof(contested));
	for (uint64_t key = 2; key < KEYS; key += 2)
		assert_int_equal(near_rcu_map64_insert(&map, key, 1, NULL), 0);
	assert_int_equal(near_rcu_map64_insert(&map, 1, 1, NULL), 0);
	team_start(&writers, WRITERS, write_some);
	team_start(&readers, READERS, read_some);
	for (unsigned n = 0; n < FORKS && !UNIT_THREAD_SANITIZER; n++) {
		assert_int_equal(unit_wait(unit_fork(check_child, NULL), NULL), 0);
		usleep(1000);
	}
	team_join(&writers);
	team_stop(&readers);
	assert_int_equal(near_rcu_map64_get(&map, 1), 1 + WRITERS * (unit_scale(CHANGES) / 4));
	for (unsigned i = 0; i < CONTESTED; i++) {
		there = near_rcu_map64_get(&map, 2 * KEYS + 2 * i + 1);
		assert_int_equal(contested[i], there != 0);
	}
	near_rcu_map64_clear(&map, NULL, NULL);
	assert_int_equal(near_rcu_map64_count(&map), 0);
	near_rcu_map64_destroy(&map);
	near_rcu_destroy(&rcu);
}

static void run(void **state)
{
	stress_run(run_once);
}

UNIT_MAIN(run)
