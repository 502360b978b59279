/* SPDX-License-Identifier: MIT */
/* near_rcu_map64, step by step: changes, what is refused, keys of any form, all changes at each
 * step of a move, a table that is full before the one before has moved, no memory at each
 * allocation, signal handlers, fork within a move. */
#include "rcu/map64.h"
#include "unit.h"

static struct near_rcu rcu;
static struct near_rcu_map64 map;
static long allocations_left = -1; /* -1: no limit */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	errno = allocations_left ? errno : ENOMEM;
	if (allocations_left >= 0 && !(allocations_left && allocations_left--))
		return NULL;
	return __real_calloc(n, size);
}

/* Not random: the same lines each time. */
static int make(void **state)
{
	allocations_left = -1;
	CHECK(near_rcu_init(&rcu, NULL) == 0);
	KEEPS_ERRNO(CHECK(near_rcu_map64_init(&map, &rcu, NULL) == 0));
	CHECK(map.factor % 2 == 1);
	map.factor = 0xd1342543de82ef95;
	return 0;
}

static int destroy(void **state)
{
	allocations_left = -1;
	KEEPS_ERRNO(near_rcu_map64_destroy(&map));
	near_rcu_destroy(&rcu);
	return 0;
}

static uint64_t get(uint64_t key)
{
	near_rcu_token t = near_rcu_enter(&rcu);
	uint64_t value = near_rcu_map64_find(&map, key);

	near_rcu_exit(&rcu, t);
	CHECK(near_rcu_map64_get(&map, key) == value);
	return value;
}

static uint64_t put(uint64_t key, uint64_t value)
{
	uint64_t old = 4711;
	int r;

	KEEPS_ERRNO(r = near_rcu_map64_put(&map, key, value, &old));
	CHECK(r == 0);
	return old;
}

static uint32_t bits(void)
{
	return 64 - (uint32_t)(map.table & 63);
}

static bool is_moving(void)
{
	return near__rcu_map64_next(map.table);
}

/* ---- the model: values of the keys 1 to KEYS ---- */

#define KEYS 3000u
static uint64_t model[KEYS + 1];
static unsigned char seen[KEYS + 1];

static void see(uint64_t key, uint64_t value, void *n)
{
	CHECK(key >= 1 && key <= KEYS && !seen[key]++);
	CHECK(model[key] == value);
	++*(size_t *)n;
}

/* The map has exactly this, by lookups, by sweeps in parts of `most`, and by number. */
static void expect(size_t most)
{
	uint64_t cursor = 0;
	size_t n = 0, there = 0;

	memset(seen, 0, sizeof(seen));
	do
		cursor = near_rcu_map64_sweep(&map, cursor, most, see, &n);
	while (cursor);
	for (uint64_t key = 1; key <= KEYS; key++) {
		CHECK(get(key) == model[key]);
		there += model[key] != 0;
	}
	assert_int_equal(n, there);
	assert_int_equal(near_rcu_map64_count(&map), there);
	assert_int_equal(get(KEYS + 1), 0);
}

static void put_both(uint64_t key, uint64_t value)
{
	CHECK(put(key, value) == model[key]);
	model[key] = value;
}

static void remove_both(uint64_t key)
{
	uint64_t value;

	KEEPS_ERRNO(value = near_rcu_map64_remove(&map, key));
	CHECK(value == model[key]);
	model[key] = 0;
}

static int make_filled(void **state)
{
	make(state);
	memset(model, 0, sizeof(model));
	for (uint64_t key = 1; key <= 200; key++)
		put_both(key, key * 3);
	while (is_moving())
		near__rcu_map64_help(&map);
	return 0;
}

/* A table of 2^to lines follows. */
static void begin_move(uint32_t to)
{
	struct near__rcu_map_table *t = near__rcu_map_allocate(to);

	CHECK(t && !is_moving());
	near__rcu_map_publish(near__rcu_map_table(map.table)->next, near__rcu_map_word(t));
}

/* ---- tests ---- */

static void changes(void **state)
{
	uint64_t value = 4711;

	assert_int_equal(get(1), 0);
	assert_int_equal(near_rcu_map64_remove(&map, 1), 0);
	assert_int_equal(near_rcu_map64_remove_if(&map, 1, 10), -ENOENT);
	value = 10;
	assert_int_equal(near_rcu_map64_replace(&map, 1, &value, 11), -ENOENT);
	assert_int_equal(value, 0);
	/* They have not claimed a slot. */
	for (uint64_t line = 0; line < 16; line++)
		assert_int_equal(near__rcu_map64_line(map.table, line << 60, 0)->keys[0], 0);
	assert_int_equal(near_rcu_map64_insert(&map, 1, 10, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(get(1), 10);
	assert_int_equal(near_rcu_map64_insert(&map, 1, 11, &value), -EEXIST);
	assert_int_equal(value, 10);
	assert_int_equal(near_rcu_map64_insert(&map, 1, 11, NULL), -EEXIST);
	assert_int_equal(put(1, 12), 10);
	assert_int_equal(near_rcu_map64_replace(&map, 1, &value, 13), -ENOENT);
	assert_int_equal(value, 12);
	assert_int_equal(near_rcu_map64_replace(&map, 1, &value, 13), 0);
	assert_int_equal(value, 12);
	assert_int_equal(get(1), 13);
	assert_int_equal(near_rcu_map64_remove_if(&map, 1, 12), -ENOENT);
	assert_int_equal(near_rcu_map64_count(&map), 1);
	assert_int_equal(near_rcu_map64_remove_if(&map, 1, 13), 0);
	assert_int_equal(near_rcu_map64_count(&map), 0);
	assert_int_equal(get(1), 0);
	assert_int_equal(put(1, 14), 0);
	assert_int_equal(near_rcu_map64_remove(&map, 1), 14);
	assert_int_equal(near_rcu_map64_put(&map, UINT64_MAX, UINT64_MAX - 1, NULL), 0);
	assert_int_equal(get(UINT64_MAX), UINT64_MAX - 1);
	assert_int_equal(near_rcu_map64_count(&map), 1);
}

static void refuses(void **state)
{
	static const uint64_t reserved[] = {0, UINT64_MAX};
	const struct near_rcu_map64_options absurd = {.entries = SIZE_MAX};
	struct near_rcu_map64 other;

	assert_int_equal(near_rcu_map64_init(&other, &rcu, &absurd), -EINVAL);
	assert_int_equal(near_rcu_map64_resize(&map, 0), -EINVAL);
	assert_int_equal(near_rcu_map64_resize(&map, SIZE_MAX), -EINVAL);
	assert_int_equal(put(1, 1), 0);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t no = reserved[i], one = 1, two = 2;

		assert_int_equal(near_rcu_map64_put(&map, 1, no, &two), -EINVAL);
		assert_int_equal(near_rcu_map64_insert(&map, 2, no, &two), -EINVAL);
		assert_int_equal(near_rcu_map64_replace(&map, 1, &one, no), -EINVAL);
		assert_int_equal(near_rcu_map64_replace(&map, 1, &no, 2), -EINVAL);
		assert_int_equal(near_rcu_map64_remove_if(&map, 1, no), -EINVAL);
		assert_int_equal(near_rcu_map64_put(&map, 0, 1, &two), -EINVAL);
		assert_int_equal(near_rcu_map64_insert(&map, 0, 1, &two), -EINVAL);
		assert_int_equal(near_rcu_map64_replace(&map, 0, &one, 2), -EINVAL);
		assert_int_equal(near_rcu_map64_remove_if(&map, 0, 1), -EINVAL);
		assert_int_equal(near_rcu_map64_remove(&map, 0), 0);
		assert_int_equal(get(0), 0);
		assert_int_equal(one, 1);
		assert_int_equal(two, 2);
	}
	assert_int_equal(get(1), 1);
	assert_int_equal(near_rcu_map64_count(&map), 1);
}

/* One number after the other, addresses, in the high bits alone. */
static void grows(void **state)
{
	static const uint64_t steps[] = {1, 64, 4096, (uint64_t)1 << 40, (uint64_t)1 << 48};
	unsigned n = unit_scale(20000);

	for (unsigned i = 0; i < LENGTH(steps); i++) {
		for (uint64_t k = 1; k <= n; k++)
			assert_int_equal(put(k * steps[i], k), 0);
		for (uint64_t k = 1; k <= n; k++)
			assert_int_equal(get(k * steps[i]), k);
		assert_int_equal(near_rcu_map64_count(&map), n);
		for (uint64_t k = 1; k <= n; k++)
			assert_int_equal(near_rcu_map64_remove(&map, k * steps[i]), k);
		assert_int_equal(near_rcu_map64_count(&map), 0);
	}
}

static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd;

	for (int i = 0; i < 6; i++)
		x *= 2 - odd * x;
	return x;
}

/* With the first line of all of them the same, until the table has 2^13 lines. */
static void grows_by_collisions(void **state)
{
	uint64_t keys[200];

	for (unsigned i = 0; i < LENGTH(keys); i++) {
		uint64_t x = ((uint64_t)5 << 51 | (uint64_t)(i + 1) << 40) *
			     inverse(0x9e3779b97f4a7c15u);

		keys[i] = (x ^ x >> 32) * inverse(map.factor);
		assert_int_equal(near__rcu_map64_mix(map.factor, keys[i]) >> 51, 5);
		assert_int_equal(put(keys[i], i + 1), 0);
		for (unsigned k = 0; k <= i; k++)
			assert_int_equal(get(keys[k]), k + 1);
	}
	assert_int_equal(near_rcu_map64_count(&map), LENGTH(keys));
	assert_int_equal(near_rcu_map64_resize(&map, 1), 0);
	for (unsigned i = 0; i < LENGTH(keys); i++)
		assert_int_equal(near_rcu_map64_remove(&map, keys[i]), i + 1);
}

static void keeps_its_size(void **state)
{
	unsigned n = unit_scale(200000);

	for (uint64_t key = 1; key <= n; key++) {
		assert_int_equal(put(key, key), 0);
		if (key > 1000)
			assert_int_equal(near_rcu_map64_remove(&map, key - 1000), key - 1000);
		assert_in_range(bits(), 4, 10);
	}
}

static void resizes(void **state)
{
	assert_int_equal(near_rcu_map64_resize(&map, 1000), 0);
	assert_int_equal(bits(), 9);
	expect(1);
	assert_int_equal(near_rcu_map64_resize(&map, 1), 0);
	assert_int_equal(bits(), 7); /* for 200 entries */
	expect(1000);
	for (uint64_t key = 1; key <= 190; key++)
		remove_both(key);
	assert_int_equal(near_rcu_map64_resize(&map, 1), 0);
	assert_int_equal(bits(), 4);
	expect(10);
	assert_int_equal(near_rcu_map64_resize(&map, 100), 0);
	for (uint64_t key = 1; key <= 500; key++) {
		put_both(key, key);
		remove_both(key);
		assert_in_range(bits(), 6, 10);
	}
	near_rcu_map64_clear(&map, NULL, NULL);
	memset(model, 0, sizeof(model));
	expect(SIZE_MAX);
}

/* At each line of a move, to a smaller table, one of the same size and a larger one: each change of
 * keys that have moved and of those that have not. */
static void changes_while_it_moves(void **state)
{
	for (uint32_t to = 6; to <= 8; to++)
		for (uint64_t stop = 0; stop <= (uint64_t)1 << 7; stop += 9) {
			uint64_t random = stop + 1;

			assert_int_equal(near_rcu_map64_resize(&map, 256), 0);
			assert_int_equal(bits(), 7);
			begin_move(to);
			for (uint64_t line = 0; line < stop && is_moving(); line += 8)
				near__rcu_map64_help(&map);
			for (unsigned i = 0; i < 60; i++) {
				uint64_t key = 1 + unit_random(&random) % 250, was = model[key];
				int r;

				if (i % 6 == 0) {
					remove_both(key);
				} else if (i % 6 == 1) {
					r = near_rcu_map64_insert(&map, key, i + 1, NULL);
					assert_int_equal(r, was ? -EEXIST : 0);
					model[key] = was ? was : i + 1;
				} else if (i % 6 == 2 && was) {
					r = near_rcu_map64_replace(&map, key, &was, i + 1);
					assert_int_equal(r, 0);
					model[key] = i + 1;
				} else if (i % 6 == 3 && was) {
					assert_int_equal(near_rcu_map64_remove_if(&map, key,
										  was + 1),
							 -ENOENT);
					assert_int_equal(near_rcu_map64_remove_if(&map, key, was),
							 0);
					model[key] = 0;
				} else {
					put_both(key, i + 1);
				}
			}
			expect(1 + stop);
		}
}

/* The next table has no place for all: it gets a next one. */
static void moves_on(void **state)
{
	struct near__rcu_map_table *small;

	for (uint64_t key = 1; key <= KEYS; key++)
		put_both(key, key);
	assert_int_equal(near_rcu_map64_resize(&map, KEYS), 0);
	begin_move(4);
	for (int i = 0; i < 20; i++)
		near__rcu_map64_help(&map);
	assert_true(is_moving());
	expect(100);
	small = near__rcu_map_table(near__rcu_map64_next(map.table));
	allocations_left = 0;
	KEEPS_ERRNO(assert_int_equal(near_rcu_map64_resize(&map, KEYS), -ENOMEM));
	expect(100);
	remove_both(1);
	put_both(2, 22);
	allocations_left = 2;
	KEEPS_ERRNO(assert_int_equal(near_rcu_map64_resize(&map, KEYS), 0));
	assert_false(is_moving());
	assert_true(small != near__rcu_map_table(map.table));
	expect(100);
}

/* A new key that has no place while the table before moves. */
static void inserts_into_a_full_one(void **state)
{
	begin_move(4);
	for (uint64_t key = 201; key <= KEYS; key++)
		put_both(key, key);
	expect(100);
}

static void no_memory(void **state)
{
	struct near_rcu_map64 other;
	uint64_t key = 201, old = 4711;
	int r;

	allocations_left = 0;
	KEEPS_ERRNO(r = near_rcu_map64_init(&other, &rcu, NULL));
	assert_int_equal(r, -ENOMEM);
	KEEPS_ERRNO(r = near_rcu_map64_resize(&map, 10000));
	assert_int_equal(r, -ENOMEM);
	for (; !r || key == 201; key++) {
		KEEPS_ERRNO(r = near_rcu_map64_put(&map, key, 1, &old));
		model[key] = !r;
		assert_int_equal(old, 0);
	}
	assert_int_equal(r, -ENOMEM);
	expect(100);
	assert_int_equal(near_rcu_map64_insert(&map, key - 1, 1, NULL), -ENOMEM);
	put_both(1, 5);
	remove_both(2);
	put_both(2, 6);
	expect(100);
	for (; key <= KEYS; key++) {
		allocations_left = 1;
		put_both(key, key);
	}
	expect(100);
	assert_in_range(bits(), 10, 12);
}

static void clears(void **state)
{
	size_t n = 0;

	memset(seen, 0, sizeof(seen));
	begin_move(9);
	near__rcu_map64_help(&map);
	near_rcu_map64_clear(&map, see, &n);
	assert_int_equal(n, 200);
	assert_int_equal(near_rcu_map64_count(&map), 0);
	memset(model, 0, sizeof(model));
	expect(1);
}

/* A part ends in the middle of a line of a smaller table. */
static void sweeps_while_it_is_resized(void **state)
{
	uint64_t cursor = 0;
	size_t n = 0;

	memset(seen, 0, sizeof(seen));
	for (unsigned part = 0; part == 0 || cursor; part++) {
		assert_int_equal(near_rcu_map64_resize(&map, part % 3 ? 1 : 2000), 0);
		cursor = near_rcu_map64_sweep(&map, cursor, 1, see, &n);
	}
	assert_int_equal(n, 200);
}

static void two_maps(void **state)
{
	struct near_rcu_map64 other;

	assert_int_equal(near_rcu_map64_init(&other, &rcu, NULL), 0);
	assert_int_equal(near_rcu_map64_put(&other, 1, 2, NULL), 0);
	assert_int_equal(put(1, 3), 0);
	assert_int_equal(near_rcu_map64_get(&other, 1), 2);
	near_rcu_map64_destroy(&other);
	assert_int_equal(get(1), 3);
}

/* ---- signal handlers, fork ---- */

static volatile unsigned handled;

/* One key that stays, one that only this removes, and that only the program inserts. */
static void on_signal(int signal)
{
	uint64_t value = near_rcu_map64_get(&map, KEYS + 1);

	CHECK(value && near_rcu_map64_replace(&map, KEYS + 1, &value, value + 1) == 0);
	value = near_rcu_map64_get(&map, KEYS + 2);
	CHECK(near_rcu_map64_remove(&map, KEYS + 2) == value);
	handled++;
}

static void in_handlers(void **state)
{
	unsigned n = unit_scale(200000), inserted = 0;

	assert_int_equal(put(KEYS + 1, 1), 0);
	unit_timer(200, on_signal);
	for (uint64_t key = KEYS + 3; key < KEYS + 3 + n || !handled; key++) {
		assert_int_equal(near_rcu_map64_put(&map, key, key, NULL), 0);
		inserted += near_rcu_map64_insert(&map, KEYS + 2, key, NULL) == 0;
		assert_int_equal(near_rcu_map64_remove(&map, key), key);
	}
	unit_timer(0, NULL);
	assert_int_equal(get(KEYS + 1), 1 + handled);
	assert_true(inserted >= 1);
}

static void child_continues(void *arg)
{
	expect(1);
	for (uint64_t key = 201; key <= KEYS; key++)
		put_both(key, key);
	expect(100);
	CHECK(near_rcu_map64_resize(&map, 5000) == 0);
	expect(100);
	near_rcu_map64_destroy(&map);
}

static void fork_while_it_moves(void **state)
{
	if (UNIT_THREAD_SANITIZER) /* it refuses threads in the child */
		skip();
	begin_move(8);
	for (int i = 0; i < 3; i++)
		near__rcu_map64_help(&map);
	near_rcu_barrier(&rcu); /* else its worker frees: UNIT_CHILD_ALLOCATES */
	assert_int_equal(unit_wait(unit_fork(child_continues, NULL), NULL), 0);
	expect(100);
}

static void destroyed_twice(void *arg)
{
	struct near_rcu_map64 other;

	CHECK(near_rcu_map64_init(&other, &rcu, NULL) == 0);
	near_rcu_map64_destroy(&other);
	near_rcu_map64_destroy(&other);
}

static void misuse_stops(void **state)
{
	unit_dies(destroyed_twice, NULL, "near_rcu_map64_destroy: no map, or destroyed before");
}

#define STEP(test, setup) cmocka_unit_test_setup_teardown(test, setup, destroy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STEP(changes, make),
		STEP(refuses, make),
		STEP(grows, make),
		STEP(grows_by_collisions, make),
		STEP(keeps_its_size, make),
		STEP(resizes, make_filled),
		STEP(changes_while_it_moves, make_filled),
		STEP(moves_on, make_filled),
		STEP(inserts_into_a_full_one, make_filled),
		STEP(no_memory, make_filled),
		STEP(clears, make_filled),
		STEP(sweeps_while_it_is_resized, make_filled),
		STEP(two_maps, make),
		STEP(in_handlers, make),
		STEP(fork_while_it_moves, make_filled),
		STEP(misuse_stops, make),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
