/* SPDX-License-Identifier: MIT */
/* near_rcu_map, step by step: changes, keys of any hash, resizing, iteration at each step of it, no
 * memory at each allocation, fork within a resize. */
#include "map_fixture.h"

static void changes(void **state)
{
	uint64_t one = 1;
	struct item *a = item_make(1), *b = item_make(1);
	struct near_rcu_map_entry *e;

	assert_null(find_key(1));
	assert_int_equal(near_rcu_map_replace(&map, &a->entry, &one, &e), -ENOENT);
	assert_null(near_rcu_map_remove_key(&map, &one));
	assert_int_equal(near_rcu_map_insert_unique(&map, &a->entry, &one, &e), 0);
	assert_ptr_equal(find_key(1), a);
	assert_int_equal(near_rcu_map_insert_unique(&map, &b->entry, &one, &e), -EEXIST);
	assert_ptr_equal(e, &a->entry);
	assert_int_equal(near_rcu_map_replace(&map, &b->entry, &one, &e), 0);
	assert_ptr_equal(e, &a->entry);
	assert_ptr_equal(find_key(1), b);
	assert_int_equal(near_rcu_map_put(&map, &a->entry, &one, &e), 0);
	assert_ptr_equal(e, &b->entry);
	assert_int_equal(near_rcu_map_remove(&map, &b->entry), -ENOENT);
	assert_int_equal(near_rcu_map_remove(&map, &a->entry), 0);
	assert_int_equal(near_rcu_map_remove(&map, &a->entry), -ENOENT);
	assert_int_equal(near_rcu_map_put(&map, &a->entry, &one, &e), 0);
	assert_null(e);
	assert_int_equal(near_rcu_map_insert(&map, &b->entry, &one), 0);
	assert_int_equal(near_rcu_map_count(&map), 2);
	near_rcu_call(&rcu, &item_of(near_rcu_map_remove_key(&map, &one))->rcu, item_free, 1);
	assert_non_null(find_key(1));
}

static void replaces_what_was_found(void **state)
{
	uint64_t key = 1;
	struct item *a = item_make(1), *b = item_make(1), *c = item_make(1);
	near_rcu_token t = near_rcu_enter(&rcu);

	insert(2, 60);
	assert_int_equal(near_rcu_map_replace_if(&map, &a->entry, &b->entry), -ENOENT);
	assert_int_equal(near_rcu_map_insert(&map, &a->entry, &key), 0);
	assert_int_equal(near_rcu_map_replace_if(&map, &a->entry, &b->entry), 0);
	assert_ptr_equal(find_key(1), b);
	assert_int_equal(near_rcu_map_replace_if(&map, &a->entry, &c->entry), -ENOENT);
	assert_ptr_equal(find_key(1), b);
	/* Of two entries of a key the one that is meant. */
	assert_int_equal(near_rcu_map_insert(&map, &a->entry, &key), 0);
	assert_int_equal(near_rcu_map_replace_if(&map, &a->entry, &c->entry), 0);
	assert_int_equal(near_rcu_map_remove(&map, &a->entry), -ENOENT);
	assert_int_equal(near_rcu_map_remove(&map, &b->entry), 0);
	assert_int_equal(near_rcu_map_remove(&map, &c->entry), 0);
	assert_int_equal(near_rcu_map_replace_if(&map, &c->entry, &a->entry), -ENOENT);
	near_rcu_exit(&rcu, t);
	expect(2, 60);
	free(a);
	free(b);
	free(c);
}

/* ---- one that is made if it is not there ---- */

struct making {
	struct item *made;
	int error;      /* to return */
	bool loses;     /* another thread inserts the key meanwhile */
	bool no_memory; /* for the insertion */
	unsigned destroyed;
};

static int make_item(struct near_rcu_map_entry **e, const void *key, void *argument)
{
	struct making *m = argument;
	const uint64_t *number = key;

	if (m->error)
		return m->error;
	m->made = item_make(*number);
	*e = &m->made->entry;
	if (m->loses)
		insert(*number, *number + 1);
	if (m->no_memory)
		allocations_left = 0;
	return 0;
}

static void destroy_item(struct near_rcu_map_entry *e, void *argument)
{
	struct making *m = argument;

	assert_ptr_equal(e, &m->made->entry);
	m->destroyed++;
	free(m->made);
}

static int get_or_make(uint64_t key, struct making *m, struct item **found)
{
	struct near_rcu_map_entry *e = (void *)m;
	near_rcu_token t = near_rcu_enter(&rcu);
	int r = near_rcu_map_get_or_insert(&map, &key, make_item, destroy_item, m, &e);

	near_rcu_exit(&rcu, t);
	*found = e ? item_of(e) : NULL;
	return r;
}

static void gets_or_inserts(void **state)
{
	struct making first = {0}, again = {0}, loser = {.loses = true}, fails = {.error = -EPERM};
	struct item *found;

	assert_int_equal(get_or_make(1, &fails, &found), -EPERM);
	assert_null(found);
	assert_int_equal(get_or_make(1, &first, &found), 1);
	assert_ptr_equal(found, first.made);
	assert_int_equal(get_or_make(1, &again, &found), 0);
	assert_ptr_equal(found, first.made);
	assert_null(again.made);
	assert_int_equal(get_or_make(2, &loser, &found), 0);
	assert_ptr_equal(found, find_key(2));
	assert_int_equal(first.destroyed + again.destroyed, 0);
	assert_int_equal(loser.destroyed, 1);
	expect(1, 3);
}

static void gets_or_inserts_without_memory(void **state)
{
	struct making none = {.no_memory = true};
	struct item *found;

	hash_factor = 0;
	insert(0, NEAR__RCU_MAP_CELLS);
	assert_int_equal(get_or_make(100, &none, &found), -ENOMEM);
	allocations_left = -1;
	assert_null(found);
	assert_int_equal(none.destroyed, 1);
	expect(0, NEAR__RCU_MAP_CELLS);
}

static void grows_and_shrinks(void **state)
{
	uint64_t buckets = status().buckets, n = 100 * buckets;

	insert(0, n);
	assert_true(status().buckets * NEAR__RCU_MAP_FULL >= n / 2);
	assert_int_equal(status().entries, n);
	expect(0, n);
	remove_keys(0, n);
	assert_true(status().buckets <= 4 * buckets);
	expect(0, 0);
	insert(0, 10);
	assert_int_equal(near_rcu_map_resize(&map, SMALL), 0);
	assert_int_equal(status().buckets, buckets);
	assert_false(status().resizing);
	expect(0, 10);
}

static void resizes_on_request(void **state)
{
	static const size_t sizes[] = {5000, 1, 100000, 7, 1000};
	uint64_t least = status().buckets;

	insert(0, 500);
	for (size_t i = 0; i < LENGTH(sizes); i++) {
		assert_int_equal(near_rcu_map_resize(&map, sizes[i]), 0);
		assert_true(status().buckets * NEAR__RCU_MAP_FIT >= sizes[i]);
		assert_true(status().buckets <= sizes[i] + 500 + least);
		assert_false(status().resizing);
		expect(0, 500);
	}
	/* It does not shrink below. */
	assert_int_equal(near_rcu_map_resize(&map, 100000), 0);
	remove_keys(0, 500);
	assert_false(status().resizing);
	assert_true(status().buckets * NEAR__RCU_MAP_FIT >= 100000);
}

static void wrong_sizes(void **state)
{
	const struct near_rcu_map_options too_many = {.entries = SIZE_MAX};
	struct near_rcu_map other;
	struct near_rcu_map_stats s;
	uint32_t bits = map.stripe_bits;
	size_t most = (size_t)NEAR__RCU_MAP_FIT << bits;
	const uint32_t most_bits = sizeof(void *) > 4 ? 40 : 24;

	assert_int_equal(near_rcu_map_init(&other, &rcu, item_hash, item_is, &too_many), -EINVAL);
	assert_int_equal(near_rcu_map_resize(&map, 0), -EINVAL);
	assert_int_equal(near_rcu_map_resize(&map, SIZE_MAX / 2), -EINVAL);
	assert_int_equal(near__rcu_map_bits(&map, 1), map.stripe_bits);
	while (near__rcu_map_bits(&map, most) == bits) {
		assert_int_equal(near__rcu_map_bits(&map, most + 1),
				 bits < most_bits ? bits + 1 : 0);
		most *= 2;
		bits++;
	}
	assert_int_equal(bits, most_bits + 1);
	assert_int_equal(near__rcu_map_bits(&map, most), 0);
	assert_int_equal(near_rcu_map_stats(&map, &s, 0), -EINVAL);
	insert(0, 10);
	expect(0, 10);
}

/* All in one chain, in one bucket after another, by the high bits alone. */
static void any_hash_will_do(void **state)
{
	static const struct {
		uint64_t mask, factor;
	} hashes[] = {{UINT64_MAX, 0}, {3, 1}, {UINT64_MAX, (uint64_t)1 << 52}, {UINT64_MAX, 4096}};

	for (size_t i = 0; i < LENGTH(hashes); i++) {
		hash_mask = hashes[i].mask;
		hash_factor = hashes[i].factor;
		insert(0, 300);
		expect(0, 300);
		assert_int_equal(near_rcu_map_resize(&map, 2000), 0);
		expect(0, 300);
		assert_int_equal(near_rcu_map_resize(&map, SMALL), 0);
		expect(0, 300);
		remove_keys(0, 150);
		expect(150, 300);
		remove_keys(150, 300);
	}
}

/* ---- within a resize ---- */

static void check_each_step(uint64_t n, size_t entries)
{
	unsigned steps = 0;
	struct near_rcu_map_iterator i;
	struct near_rcu_map_entry *e;
	near_rcu_token t = near_rcu_enter(&rcu);
	uint64_t seen = 0;

	begin_resize(entries);
	near_rcu_map_begin(&map, &i);
	for (; status().resizing; steps++) {
		uint64_t key = n + steps;
		struct item *extra = item_make(key);

		CHECK(near_rcu_map_insert(&map, &extra->entry, &key) == 0);
		CHECK(find_key(key) == extra);
		CHECK(near_rcu_map_remove(&map, &extra->entry) == 0);
		near_rcu_call(&rcu, &extra->rcu, item_free, sizeof(*extra));
		expect(0, n);
		/* One that goes on while buckets move under it. */
		e = near_rcu_map_next(&i);
		seen += e && item_of(e)->key < n;
	}
	while ((e = near_rcu_map_next(&i)))
		seen++;
	assert_int_equal(seen, n);
	near_rcu_exit(&rcu, t);
	assert_true(steps > 2);
}

static void all_is_found_at_each_step_of_a_resize(void **state)
{
	uint64_t n = 8 * status().buckets;

	near_rcu_map_resize(&map, 2 * n);
	insert(0, n);
	check_each_step(n, 8 * n);
	check_each_step(n, 4 * n);
	check_each_step(n, n);
	check_each_step(n, 3 * n);
}

/* ---- some of the entries ---- */

#define SAME 20u

static unsigned count_of(uint64_t key)
{
	struct near_rcu_map_iterator i;
	struct near_rcu_map_entry *e;
	uint64_t versions = 0;
	near_rcu_token t = near_rcu_enter(&rcu);
	unsigned n = 0;

	near_rcu_map_begin_key(&map, &key, &i);
	for (; (e = near_rcu_map_next(&i)); n++) {
		CHECK(item_of(e)->key == key);
		CHECK(!(versions & (uint64_t)1 << item_of(e)->version));
		versions |= (uint64_t)1 << item_of(e)->version;
	}
	CHECK(!near_rcu_map_next(&i));
	near_rcu_exit(&rcu, t);
	return n;
}

/* With others of the same hash, and of other hashes. */
static void finds_all_entries_of_a_key(void **state)
{
	uint64_t same = 5, key = 1000;

	hash_mask = 3;
	insert(0, 60);
	for (unsigned n = 1; n <= SAME; n++) {
		struct item *i = item_make(same);

		i->version = n;
		assert_int_equal(near_rcu_map_insert(&map, &i->entry, &same), 0);
		assert_int_equal(count_of(same), n + 1);
	}
	for (begin_resize(10000); status().resizing; key++) {
		insert(key, key + 1);
		assert_int_equal(count_of(same), SAME + 1);
		assert_int_equal(count_of(key), 1);
	}
	assert_int_equal(count_of(9), 1);
	assert_int_equal(count_of(60), 0);
	for (unsigned n = SAME + 1; n; n--) {
		remove_keys(same, same + 1);
		assert_int_equal(count_of(same), n - 1);
	}
}

static unsigned char *visits;

static void count_visit(struct near_rcu_map_entry *e, void *argument)
{
	const uint64_t *below = argument;

	visits[item_of(e)->key] += item_of(e)->key < *below;
}

static uint64_t number_hash(const void *key)
{
	return (uintptr_t)key;
}

static bool number_is(const struct near_rcu_map_entry *e, const void *key)
{
	return ((const struct item *)e)->key == (uintptr_t)key;
}

/* A map whose keys are numbers, not their addresses. */
static void a_key_may_be_null(void **state)
{
	struct near_rcu_map numbers;
	struct near_rcu_map_iterator i;
	static struct item items[100]; /* several of a bucket */
	near_rcu_token t;

	assert_int_equal(near_rcu_map_init(&numbers, &rcu, number_hash, number_is, NULL), 0);
	for (uintptr_t n = 0; n < LENGTH(items); n++) {
		items[n].key = n;
		assert_int_equal(near_rcu_map_insert(&numbers, &items[n].entry, (void *)n), 0);
	}
	t = near_rcu_enter(&rcu);
	near_rcu_map_begin_key(&numbers, NULL, &i);
	assert_ptr_equal(near_rcu_map_next(&i), &items[0].entry);
	assert_null(near_rcu_map_next(&i));
	near_rcu_exit(&rcu, t);
	near_rcu_map_destroy(&numbers);
}

/* Buckets move between its parts, to more and to fewer. */
static void sweep_within_a_resize(uint64_t n, size_t entries, size_t most)
{
	uint64_t cursor = 0, key = n;
	unsigned parts = 0;

	visits = calloc(2 * n, 1);
	CHECK(visits);
	begin_resize(entries);
	do {
		KEEPS_ERRNO(cursor = near_rcu_map_sweep(&map, cursor, most, count_visit, &n));
		insert(key, key + 1);
		remove_keys(key, key + 1);
		parts++;
	} while (cursor);
	for (key = 0; key < n; key++)
		assert_int_equal(visits[key], 1);
	assert_true(most > 2 * n ? parts == 1 : parts > n / (6 * most + 12));
	free(visits);
	assert_int_equal(near_rcu_map_resize(&map, entries), 0);
}

static void sweeps_all_in_parts(void **state)
{
	static const size_t most[] = {1, 7, 100, SIZE_MAX};
	uint64_t n = 8 * status().buckets;

	insert(0, n);
	for (size_t i = 0; i < LENGTH(most); i++) {
		assert_int_equal(near_rcu_map_resize(&map, 2 * n), 0);
		sweep_within_a_resize(n, 8 * n, most[i]);
		sweep_within_a_resize(n, 2 * n, most[i]);
	}
	expect(0, n);
}

static void free_cleared(struct near_rcu_map_entry *e, void *argument)
{
	unsigned *n = argument;

	(*n)++;
	near_rcu_call(&rcu, &item_of(e)->rcu, item_free, sizeof(struct item));
}

static void clears(void **state)
{
	unsigned n = 0;

	near_rcu_map_clear(&map, free_cleared, &n);
	assert_int_equal(n, 0);
	insert(0, 1000);
	begin_resize(10000);
	KEEPS_ERRNO(near_rcu_map_clear(&map, free_cleared, &n));
	assert_int_equal(n, 1000);
	expect(0, 0);
	insert(0, 100);
	expect(0, 100);
}

/* One thread that allocates a table, and does not run, delays nobody else. */
static void resizes_while_another_thread_allocates(void **state)
{
	map.starts = 1;
	insert(0, 500);
	assert_int_equal(near_rcu_map_resize(&map, 5000), 0);
	assert_true(status().buckets * NEAR__RCU_MAP_FIT >= 5000);
	map.starts = 0;
	expect(0, 500);
}

static void no_memory(void **state)
{
	uint64_t least = status().buckets, full = least * NEAR__RCU_MAP_CELLS, key;
	int failed = 0;

	/* It cannot grow, then has no room either. */
	allocations_left = 0;
	for (key = 0; key < 2 * full; key++) {
		struct item *i = item_make(key);
		int r;

		KEEPS_ERRNO(r = near_rcu_map_insert(&map, &i->entry, &key));
		if (!r)
			continue;
		assert_int_equal(r, -ENOMEM);
		free(i);
		failed++;
		assert_null(find_key(key));
	}
	assert_true(failed >= (int)full);
	assert_int_equal(near_rcu_map_count(&map), 2 * full - failed);
	assert_int_equal(status().buckets, least);
	assert_int_equal(near_rcu_map_resize(&map, 100000), -ENOMEM);
	allocations_left = -1;
	for (key = 0; key < 2 * full; key++) {
		struct item *i = item_make(key);

		if (near_rcu_map_insert_unique(&map, &i->entry, &key, NULL))
			free(i);
	}
	expect(0, 2 * full);
}

/* The table shrinks by itself to what was requested before. */
static void a_resize_that_fails_changes_nothing(void **state)
{
	uint64_t least = status().buckets;

	allocations_left = 0;
	KEEPS_ERRNO(assert_int_equal(near_rcu_map_resize(&map, 100000), -ENOMEM));
	allocations_left = -1;
	insert(0, 100 * least);
	remove_keys(0, 100 * least);
	assert_true(status().buckets <= 4 * least);
}

/* A resize whose chains have no memory stops, and goes on. */
static void resize_with_little_memory(size_t entries)
{
	long allowed = 0;
	int r;

	do {
		allocations_left = allowed++;
		KEEPS_ERRNO(r = near_rcu_map_resize(&map, entries));
		allocations_left = -1;
		expect(0, 400);
		assert_true(r == 0 || r == -ENOMEM);
	} while (r);
	assert_true(allowed > 5);
}

static void no_memory_within_a_resize(void **state)
{
	hash_mask = 7;
	insert(0, 400);
	resize_with_little_memory(10000);
	resize_with_little_memory(SMALL);
	insert(400, 500);
	expect(0, 500);
}

/* What changes move by themselves stays where it is. */
static void no_memory_for_a_change_that_helps(void **state)
{
	hash_mask = 7;
	insert(0, 400);
	near_rcu_map_resize(&map, SMALL);
	begin_resize(10000);
	allocations_left = 0;
	for (unsigned n = 0; n < 100; n++) {
		struct near_rcu_map_entry *e = NULL;
		uint64_t key = n;

		KEEPS_ERRNO(e = near_rcu_map_remove_key(&map, &key));
		assert_non_null(e);
		KEEPS_ERRNO(CHECK(near_rcu_map_insert(&map, e, &key) == 0));
	}
	assert_true(status().resizing);
	allocations_left = -1;
	for (expect(0, 400); status().resizing; expect(0, 400)) {
		remove_keys(399, 400);
		insert(399, 400);
	}
}

static void no_memory_for_a_map(void **state)
{
	struct near_rcu_map other;
	int r = -ENOMEM;

	for (int allowed = 0; r; allowed++) {
		allocations_left = allowed;
		KEEPS_ERRNO(r = near_rcu_map_init(&other, &rcu, item_hash, item_is, NULL));
		assert_true(r == 0 || (r == -ENOMEM && allowed < 2));
	}
	near_rcu_map_destroy(&other);
}

/* ---- fork ---- */

static void continue_in_child(void *arg)
{
	expect(0, 300);
	insert(300, 2000);
	expect(0, 2000);
	CHECK(near_rcu_map_resize(&map, 20000) == 0);
	remove_keys(0, 2000);
	expect(0, 0);
	near_rcu_barrier(&rcu);
}

static void fork_within_a_resize(void **state)
{
	insert(0, 300);
	/* It may still grow: the number of CPUs decides how many buckets it began with. */
	assert_int_equal(near_rcu_map_resize(&map, 300), 0);
	begin_resize(5000);
	insert(300, 301);
	remove_keys(300, 301);
	assert_true(status().resizing);
	near_rcu_barrier(&rcu);     /* else its worker frees: UNIT_CHILD_ALLOCATES */
	if (!UNIT_THREAD_SANITIZER) /* it allows no threads in a child */
		assert_int_equal(unit_wait(unit_fork(continue_in_child, NULL), NULL), 0);
	continue_in_child(NULL);
}

/* By the fixture. */
static void destroy_within_a_resize(void **state)
{
	hash_factor = 0;
	insert(0, 300);
	assert_int_equal(near_rcu_map_resize(&map, 5000), 0);
	begin_resize(100);
}

static void destroy_again(void *arg)
{
	near_rcu_map_destroy(&map);
	map.table = near__rcu_map_word(near__rcu_map_allocate(3));
	near_rcu_map_destroy(&map);
}

static void misuse_stops_the_program(void **state)
{
	unit_dies(destroy_again, NULL, "near_rcu_map_destroy: no map, or destroyed before");
}

UNIT_MAIN_EACH(make, destroy, changes, replaces_what_was_found, gets_or_inserts,
	       gets_or_inserts_without_memory, grows_and_shrinks, resizes_on_request, wrong_sizes,
	       any_hash_will_do, all_is_found_at_each_step_of_a_resize, finds_all_entries_of_a_key,
	       a_key_may_be_null, sweeps_all_in_parts, clears,
	       resizes_while_another_thread_allocates, no_memory,
	       a_resize_that_fails_changes_nothing, no_memory_within_a_resize,
	       no_memory_for_a_change_that_helps, no_memory_for_a_map, fork_within_a_resize,
	       destroy_within_a_resize, misuse_stops_the_program)
