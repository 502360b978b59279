/* SPDX-License-Identifier: MIT */
/* near_rcu_map, whose changes are interrupted at every instruction, by single steps: what lookups
 * find there, and what another thread that retires tables does. */
#include "map_fixture.h"

#include "trap_steps.h"

/* ---- calls ---- */

/* Its sequences would be aborted by each step: it is put off. */
typedef void callback(struct near_rcu_head *head);
static struct near_rcu_head *put_off[16];
static callback *callbacks[LENGTH(put_off)];
static unsigned n_put_off;
static bool puts_off;

void __real_near_rcu_call(struct near_rcu *d, struct near_rcu_head *head, callback *run, size_t n);
void __wrap_near_rcu_call(struct near_rcu *d, struct near_rcu_head *head, callback *run, size_t n);

void __wrap_near_rcu_call(struct near_rcu *d, struct near_rcu_head *head, callback *run, size_t n)
{
	if (!puts_off) {
		__real_near_rcu_call(d, head, run, n);
		return;
	}
	CHECK(n_put_off < LENGTH(put_off));
	put_off[n_put_off] = head;
	callbacks[n_put_off++] = run;
}

static void make_calls(void)
{
	puts_off = false;
	for (; n_put_off; n_put_off--)
		near_rcu_call(&rcu, put_off[n_put_off - 1], callbacks[n_put_off - 1], 1);
}

/* ---- two lookups, of which one is slow ---- */

static const uint64_t other = 101, one = 1; /* of one hash */
static struct item *before, *after;
static bool pauses, loaded, goes, done;
static struct near_rcu_map_entry *first_found, *then_found;

/* Called of the other key's entry, before the slot of key 1 is loaded. */
static bool pausing_is(const struct near_rcu_map_entry *e, const void *key)
{
	if (__atomic_exchange_n(&pauses, false, __ATOMIC_RELAXED)) {
		__atomic_store_n(&loaded, true, __ATOMIC_SEQ_CST);
		unit_await(&goes);
	}
	return item_is(e, key);
}

static void *find_slowly(void *unused)
{
	near_rcu_token t = near_rcu_enter(&rcu);

	first_found = near_rcu_map_find(&map, masked_hash(&one), &one, pausing_is);
	near_rcu_exit(&rcu, t);
	__atomic_store_n(&done, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* The slow lookup ends, then there is another one. */
static void find_again(void)
{
	__atomic_store_n(&goes, true, __ATOMIC_SEQ_CST);
	unit_await(&done);
	then_found = near_rcu_map_find(&map, masked_hash(&one), &one, item_is);
}

static void put_back(void)
{
	CHECK(near_rcu_map_insert(&map, &after->entry, &one) == 0);
}

static bool find_twice(unsigned at)
{
	pthread_t thread;
	near_rcu_token t;
	bool met;

	pauses = true;
	loaded = goes = done = false;
	after = item_make(1);
	thread = unit_start(find_slowly, NULL);
	unit_await(&loaded);
	assert_int_equal(near_rcu_map_remove(&map, &before->entry), 0);
	t = near_rcu_enter(&rcu);
	met = step(put_back, at, find_again);
	near_rcu_exit(&rcu, t);
	__atomic_store_n(&goes, true, __ATOMIC_SEQ_CST);
	unit_join(thread);
	near_rcu_call(&rcu, &before->rcu, item_free, sizeof(*before));
	before = after;
	return met;
}

/* An insertion in a slot whose former tag a lookup has loaded. */
static void what_was_found_is_found_again(void **state)
{
	unsigned at = 1, early = 0;

	if (!can_step())
		skip();
	hash_mask = 1;
	insert(other, other + 1);
	before = item_make(1);
	assert_int_equal(near_rcu_map_insert(&map, &before->entry, &one), 0);
	for (; find_twice(at); at++) {
		early += first_found != NULL;
		if (first_found)
			assert_ptr_equal(then_found, first_found);
	}
	print_message("%u instructions, %u after the entry is there\n", at - 1, early);
	assert_true(early > 0 && early < at - 1);
}

/* ---- lookups and an iteration at each instruction ---- */

#define LASTING 24u

static uint64_t interruptions;

static void find_all(void)
{
	struct near_rcu_map_iterator i;
	struct near_rcu_map_entry *e;
	uint64_t seen = 0;

	near_rcu_map_begin(&map, &i);
	while ((e = near_rcu_map_next(&i)))
		if (item_of(e)->key < LASTING)
			seen += (uint64_t)1 << item_of(e)->key;
	CHECK(seen == ((uint64_t)1 << LASTING) - 1);
	for (uint64_t key = interruptions++ % 4; key < LASTING; key += 4)
		CHECK(near_rcu_map_find(&map, masked_hash(&key), &key, item_is));
}

/* A change of each kind, until the resize has ended. */
static void change_all(void)
{
	static struct item i = {.key = LASTING}, j = {.key = LASTING};
	struct near_rcu_map_entry *old;

	while (status().resizing) {
		CHECK(near_rcu_map_insert(&map, &i.entry, &i.key) == 0);
		CHECK(near_rcu_map_replace(&map, &j.entry, &j.key, &old) == 0 && old == &i.entry);
		CHECK(near_rcu_map_remove(&map, &j.entry) == 0);
		i.key++;
		j.key++;
	}
}

/* With a hash that makes chains. */
static void all_is_found_at_each_instruction(void **state)
{
	static const size_t sizes[] = {60, 1};

	if (!can_step())
		skip();
	interruptions = 0;
	hash_mask = 7;
	hash_factor = (uint64_t)1 << 59;
	insert(0, LASTING);
	for (unsigned i = 0; i < LENGTH(sizes); i++) {
		near_rcu_token t = near_rcu_enter(&rcu);

		begin_resize(sizes[i]);
		puts_off = true;
		step(change_all, 0, find_all);
		near_rcu_exit(&rcu, t);
		make_calls();
	}
	print_message("%lu instructions\n", (unsigned long)interruptions);
	assert_true(interruptions > 1000);
}

/* ---- the list of retired tables ---- */

static struct near__rcu_map_table *taken[2];
static unsigned n_taken;

static void take_list(void)
{
	struct near__rcu_map_table *t = __atomic_exchange_n(&map.retired, NULL, __ATOMIC_ACQUIRE);

	for (; t; t = t->retired) {
		CHECK(n_taken < LENGTH(taken));
		taken[n_taken++] = t;
	}
}

/* All buckets have moved. */
static void move_all(size_t entries)
{
	struct near__rcu_map_table *t = near__rcu_map_current(&map);
	struct near__rcu_map_bucket *spares = NULL;

	begin_resize(entries);
	for (uint64_t i = 0; i < (uint64_t)1 << t->bits; i++)
		CHECK(near__rcu_map_move(t, i, &spares) == 0);
	for (unsigned i = 0; i < near__rcu_map_stripes(&map); i++)
		map.stripes[i].moved = (uint64_t)1 << (t->bits - map.stripe_bits);
	map.helped = near__rcu_map_stripes(&map);
}

/* Ends the resize. */
static void remove_one(void)
{
	near_rcu_map_remove(&map, &before->entry);
}

/* Of the thread that is interrupted, and of the other one. */
static struct near__rcu_map_table *old, *theirs;
static unsigned instructions, retires_at;

static void find_the_moment(void)
{
	instructions++;
	if (!retires_at && map.retired != theirs)
		retires_at = instructions;
}

/* Another thread has retired a table, and may take the list. */
static void retire_two(unsigned at, void (*interrupt)(void))
{
	theirs = near__rcu_map_allocate(3);
	assert_int_equal(near_rcu_map_insert(&map, &before->entry, &one), 0);
	old = near__rcu_map_current(&map);
	move_all(at % 2 ? 60 : SMALL);
	map.retired = theirs;
	n_taken = 0;
	puts_off = true;
	assert_true(step(remove_one, at, interrupt));
	for (unsigned i = 0; i < n_taken; i++)
		near_rcu_call(&rcu, &taken[i]->head, NULL, 1);
	assert_int_equal(n_put_off, 2);
	assert_ptr_not_equal(put_off[0], put_off[1]);
	for (unsigned i = 0; i < 2; i++)
		assert_true(put_off[i] == &theirs->head || put_off[i] == &old->head);
	n_put_off = 0;
	puts_off = false;
	near__rcu_map_free(theirs);
	near__rcu_map_free(old);
}

/* At the instructions before its table is on the list, and after. */
static void a_table_is_retired_once(void **state)
{
	if (!can_step())
		skip();
	before = item_make(1);
	instructions = retires_at = 0;
	retire_two(0, find_the_moment);
	assert_true(retires_at > 20 && retires_at < instructions);
	for (unsigned at = retires_at - 20; at <= retires_at; at++)
		retire_two(at, take_list);
	free(before);
}

UNIT_MAIN_EACH(make, destroy, what_was_found_is_found_again, all_is_found_at_each_instruction,
	       a_table_is_retired_once)
