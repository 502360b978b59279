/* SPDX-License-Identifier: MIT */
/* The objects that all threads share, and the checks of their sums and owners at the end. */
#include "storm.h"

#include <sys/mman.h>

struct storm storm;

static void released(struct near_refcount *r)
{
	__atomic_fetch_add(&storm.released, 1, __ATOMIC_RELAXED);
}

void storm_push(struct storm_item *item)
{
	__atomic_store_n(&item->owner, 0, __ATOMIC_RELAXED);
	near_stack_push(&storm.stack, &item->link);
}

bool storm_claim(struct storm_item *item, unsigned number)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&item->owner, &none, number + 1, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

void storm_begin(unsigned workers)
{
	memset(&storm, 0, sizeof(storm));
	storm.workers = workers;
	assert_int_equal(near_counter_init(&storm.count), 0);
	assert_int_equal(near_counter_init(&storm.reset), 0);
	assert_int_equal(near_counter_init(&storm.fixed), 0);
	assert_int_equal(near_stack_init(&storm.stack), 0);
	assert_int_equal(near_refcount_init(&storm.refs, released), 0);
	assert_int_equal(near_shared_create(&storm.shared, 64), 0);
	storm.of_children =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(storm.of_children != MAP_FAILED);
	for (unsigned i = 0; i < STORM_ITEMS; i++)
		storm_push(&storm.items[i]);
	for (unsigned i = 0; i < STORM_THREADS; i++) {
		storm.threads[i].number = i;
		storm.threads[i].random = i;
	}
}

static void check_sums(void)
{
	int64_t count = 0, added = 0, shared = *storm.of_children;

	for (unsigned i = 0; i < STORM_THREADS; i++) {
		const struct storm_tally *t = &storm.tallies[i];

		count += (int64_t)(t->done + t->handler_done);
		added += t->added + t->handler_added;
		shared += t->shared + t->handler_shared;
		assert_int_equal(t->wrong, 0);
		assert_int_equal(t->started, t->done);
	}
	assert_int_equal(near_counter_read(&storm.count), count);
	assert_true(near_counter_read_cached(&storm.count, 0) <= count);
	assert_int_equal(storm.taken + near_counter_read(&storm.reset), added);
	assert_int_equal(near_shared_read(&storm.shared, 8), shared);
}

static void check_items(void)
{
	struct near_stack_node *list = near_stack_drain(&storm.stack);
	unsigned n = 0;

	for (; list; list = list->next, n++) {
		assert_true(n < STORM_ITEMS);
		assert_true(storm_claim(storm_item_of(list), 0));
	}
	assert_int_equal(n, STORM_ITEMS);
	assert_null(near_stack_steal(&storm.stack));
}

static void check_refs(void)
{
	assert_int_equal(storm.released, 0);
	near_refcount_kill(&storm.refs);
	assert_true(near_refcount_is_zero(&storm.refs));
	assert_int_equal(storm.released, 1);
}

void storm_end(void)
{
	check_sums();
	check_items();
	check_refs();
	near_counter_destroy(&storm.count);
	near_counter_destroy(&storm.reset);
	near_counter_destroy(&storm.fixed);
	near_stack_destroy(&storm.stack);
	near_refcount_destroy(&storm.refs);
	near_shared_close(&storm.shared);
	munmap(storm.of_children, 4096);
}

/* ---- in a forked child ---- */

/* The fork is one cut through what all threads did, so each was before, inside or behind its
 * add. */
static void check_count(void)
{
	uint64_t least = 0, most = 0, count;

	for (unsigned i = 0; i < STORM_THREADS; i++) {
		least += storm.tallies[i].done + storm.tallies[i].handler_done;
		most += storm.tallies[i].started + storm.tallies[i].handler_started;
	}
	count = (uint64_t)near_counter_read(&storm.count);
	CHECK(least <= count && count <= most);
	near_counter_add(&storm.count, 7);
	CHECK((uint64_t)near_counter_read(&storm.count) == count + 7);
	CHECK((uint64_t)near_counter_reset(&storm.count) == count + 7);
	CHECK(near_counter_read_cached(&storm.count, 0) == 0);
}

#define CHILD (STORM_THREADS + 1) /* owner of what a child took */

/* What is on a list is whole and there once. Other threads' hands are lost to this process. */
static void check_lists(void)
{
	struct near_stack_node *list = near_stack_drain(&storm.stack), *next;
	unsigned n = 0, again = 0;

	for (; list; list = next, n++) {
		next = list->next;
		CHECK(n < STORM_ITEMS);
		CHECK(storm_claim(storm_item_of(list), CHILD));
		list->next = NULL;
	}
	CHECK(near_stack_pop(&storm.stack) == NULL);
	for (unsigned i = 0; i < STORM_ITEMS; i++)
		if (storm.items[i].owner == CHILD + 1)
			storm_push(&storm.items[i]);
	while ((list = near_stack_steal(&storm.stack))) {
		CHECK(storm_claim(storm_item_of(list), CHILD));
		again++;
	}
	CHECK(again == n);
}

/* Killed by a thread that is no more, it may never reach zero: then there is nothing to check. */
static void check_count_of_refs(void)
{
	near_refcount_get(&storm.refs);
	near_refcount_put(&storm.refs);
	CHECK(near_refcount_try_get(&storm.refs));
	if (!near_refcount_try_get_live(&storm.refs)) {
		near_refcount_put(&storm.refs);
		return;
	}
	near_refcount_kill(&storm.refs);
	CHECK(!near_refcount_try_get_live(&storm.refs));
	near_refcount_revive(&storm.refs);
	CHECK(near_refcount_try_get_live(&storm.refs));
}

static void use_fresh_memory(void)
{
	struct near_counter fresh;

	for (int i = 0; i < 10; i++) {
		CHECK(near_counter_init(&fresh) == 0);
		CHECK(near_counter_read(&fresh) == 0);
		near_counter_add(&fresh, i);
		CHECK(near_counter_read(&fresh) == i);
		near_counter_destroy(&fresh);
	}
}

void storm_check_child(void)
{
	check_count();
	check_lists();
	check_count_of_refs();
	use_fresh_memory();
	near_shared_add(&storm.shared, 8, 11);
	__atomic_fetch_add(storm.of_children, 11, __ATOMIC_RELAXED);
}
