/* SPDX-License-Identifier: MIT */
/* The objects that all threads share, and the checks of their sums and owners at the end. */
#include "counters.h"
#include "stress.h"

struct stress stress;

static void released(struct near_refcount *r)
{
	__atomic_fetch_add(&stress.released, 1, __ATOMIC_RELAXED);
}

void stress_push(struct stress_item *item)
{
	__atomic_store_n(&item->owner, 0, __ATOMIC_RELAXED);
	near_stack_push(&stress.stack, &item->link);
}

bool stress_claim(struct stress_item *item, unsigned number)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&item->owner, &none, number + 1, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

static const struct near_histogram_options with_sum = {.exact_sum = true};

void stress_begin(unsigned workers)
{
	memset(&stress, 0, sizeof(stress));
	stress.workers = workers;
	assert_int_equal(near_counter_init(&stress.count), 0);
	assert_int_equal(near_counter_init(&stress.reset), 0);
	assert_int_equal(near_counter_init(&stress.fixed), 0);
	assert_int_equal(near_stack_init(&stress.stack), 0);
	assert_int_equal(near_refcount_init(&stress.refs, released), 0);
	assert_int_equal(counters_open(&stress.shared, 8), 0);
	assert_int_equal(near_histogram_init(&stress.histogram, &with_sum), 0);
	stress.of_children = unit_map(4096, MAP_SHARED);
	for (unsigned i = 0; i < STRESS_ITEMS; i++)
		stress_push(&stress.items[i]);
	for (unsigned i = 0; i < STRESS_THREADS; i++) {
		stress.threads[i].number = i;
		stress.threads[i].random = i;
	}
}

static void check_sums(void)
{
	int64_t count = 0, added = 0, shared = *stress.of_children;

	for (unsigned i = 0; i < STRESS_THREADS; i++) {
		const struct stress_tally *t = &stress.tallies[i];

		count += (int64_t)(t->done + t->handler_done);
		added += t->added + t->handler_added;
		shared += t->shared + t->handler_shared;
		assert_int_equal(t->wrong, 0);
		assert_int_equal(t->started, t->done);
	}
	assert_int_equal(near_counter_read(&stress.count), count);
	assert_true(near_counter_read_cached(&stress.count, 0) <= count);
	assert_int_equal(stress.taken + near_counter_read(&stress.reset), added);
	assert_int_equal(near_shared_counters_read(&stress.shared, 1), shared);
}

static void check_values(void)
{
	struct near_histogram_snapshot s;
	uint64_t recorded = 0;

	for (unsigned i = 0; i < STRESS_THREADS; i++)
		recorded += stress.tallies[i].recorded + stress.tallies[i].handler_recorded;
	assert_int_equal(near_histogram_read(&stress.histogram, &s), 0);
	assert_int_equal(stress.taken_values + s.count, recorded);
	assert_int_equal(stress.taken_sum + s.exact_sum, recorded * STRESS_VALUE);
	near_histogram_snapshot_free(&s);
}

static void check_items(void)
{
	struct near_stack_node *list = near_stack_drain(&stress.stack);
	unsigned n = 0;

	for (; list; list = list->next, n++) {
		assert_true(n < STRESS_ITEMS);
		assert_true(stress_claim(stress_item_of(list), 0));
	}
	assert_int_equal(n, STRESS_ITEMS);
	assert_null(near_stack_steal(&stress.stack));
}

static void check_refs(void)
{
	assert_int_equal(stress.released, 0);
	near_refcount_kill(&stress.refs);
	assert_true(near_refcount_is_zero(&stress.refs));
	assert_int_equal(stress.released, 1);
}

void stress_end(void)
{
	check_sums();
	check_values();
	check_items();
	check_refs();
	near_counter_destroy(&stress.count);
	near_counter_destroy(&stress.reset);
	near_counter_destroy(&stress.fixed);
	near_stack_destroy(&stress.stack);
	near_refcount_destroy(&stress.refs);
	counters_close(&stress.shared);
	near_histogram_destroy(&stress.histogram);
	munmap(stress.of_children, 4096);
}

/* ---- in a forked child ---- */

/* The fork is one cut through what all threads did, so each was before, inside or behind its
 * add. */
static void check_count(void)
{
	uint64_t least = 0, most = 0, count;

	for (unsigned i = 0; i < STRESS_THREADS; i++) {
		least += stress.tallies[i].done + stress.tallies[i].handler_done;
		most += stress.tallies[i].started + stress.tallies[i].handler_started;
	}
	count = (uint64_t)near_counter_read(&stress.count);
	CHECK(least <= count && count <= most);
	near_counter_add(&stress.count, 7);
	CHECK((uint64_t)near_counter_read(&stress.count) == count + 7);
	CHECK((uint64_t)near_counter_reset(&stress.count) == count + 7);
	CHECK(near_counter_read_cached(&stress.count, 0) == 0);
}

#define CHILD (STRESS_THREADS + 1) /* owner of what a child took */

/* What is on a list is whole and there once. Other threads' hands are lost to this process. */
static void check_lists(void)
{
	struct near_stack_node *list = near_stack_drain(&stress.stack), *next;
	unsigned n = 0, again = 0;

	for (; list; list = next, n++) {
		next = list->next;
		CHECK(n < STRESS_ITEMS);
		CHECK(stress_claim(stress_item_of(list), CHILD));
		list->next = NULL;
	}
	CHECK(near_stack_pop(&stress.stack) == NULL);
	for (unsigned i = 0; i < STRESS_ITEMS; i++)
		if (stress.items[i].owner == CHILD + 1)
			stress_push(&stress.items[i]);
	while ((list = near_stack_steal(&stress.stack))) {
		CHECK(stress_claim(stress_item_of(list), CHILD));
		again++;
	}
	CHECK(again == n);
}

/* Killed by a thread that is no more, it may never reach zero: then there is nothing to check. */
static void check_count_of_refs(void)
{
	near_refcount_get(&stress.refs);
	near_refcount_put(&stress.refs);
	CHECK(near_refcount_try_get(&stress.refs));
	if (!near_refcount_try_get_live(&stress.refs)) {
		near_refcount_put(&stress.refs);
		return;
	}
	near_refcount_kill(&stress.refs);
	CHECK(!near_refcount_try_get_live(&stress.refs));
	near_refcount_revive(&stress.refs);
	CHECK(near_refcount_try_get_live(&stress.refs));
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

void stress_check_child(void)
{
	check_count();
	check_lists();
	check_count_of_refs();
	use_fresh_memory();
	near_shared_counters_add(&stress.shared, 1, 11);
	__atomic_fetch_add(stress.of_children, 11, __ATOMIC_RELAXED);
}
