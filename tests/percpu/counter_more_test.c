/* SPDX-License-Identifier: MIT */
/* near_counter among threads: resets that lose nothing, reads that never go back; signal handlers
 * and forked children. */
#include <nearcpu/counter.h>

#include "team.h"

static struct near_counter c; /* a new one in each test */

static int make_counter(void **state)
{
	return near_counter_init(&c);
}

static int destroy_counter(void **state)
{
	near_counter_destroy(&c);
	return 0;
}

#define ADDERS 6
static int64_t added[ADDERS], taken[2];

static void add_many(unsigned number)
{
	unsigned adds = unit_scale(200000);
	uint64_t seed = number;

	for (unsigned i = 0; i < adds; i++) {
		int64_t n = (int64_t)(unit_random(&seed) % 1000) - 300;

		near_counter_add(&c, n);
		added[number] += n;
		if (i % 1024 == 0)
			sched_yield();
	}
}

static void read_cached(void)
{
	near_counter_read_cached(&c, 10000000); /* a tick or more */
	sched_yield();
}

/* Takes away again and again. */
static void reset_many(unsigned number)
{
	while (team_continues()) {
		taken[number] += near_counter_reset(&c);
		read_cached();
	}
}

static void resets_lose_no_add(void **state)
{
	int64_t all_added = 0, all_taken = 0;
	struct team team;

	team_start(&team, LENGTH(taken), reset_many);
	team_run(ADDERS, add_many);
	team_stop(&team);
	for (unsigned i = 0; i < ADDERS; i++)
		all_added += added[i];
	for (unsigned i = 0; i < LENGTH(taken); i++)
		all_taken += taken[i];
	assert_int_equal(all_taken + near_counter_read(&c), all_added);
	assert_int_equal(all_taken + near_counter_reset(&c), all_added);
	assert_int_equal(near_counter_read(&c), 0);
}

static unsigned backwards; /* reads that went back */

/* Of adds that only grow, no thread sees the sum shrink. The first member only fills the cache. */
static void watch(unsigned number)
{
	int64_t last = 0;

	while (team_continues()) {
		int64_t now = near_counter_read(&c);

		if (now < last)
			__atomic_add_fetch(&backwards, 1, __ATOMIC_RELAXED);
		last = now;
		if (number == 0)
			read_cached();
	}
}

/* Nor, with concurrent resets, which are the first member's, below zero. */
static void watch_for_less_than_nothing(unsigned number)
{
	if (number == 0)
		return reset_many(number);
	while (team_continues())
		if (near_counter_read(&c) < 0)
			__atomic_add_fetch(&backwards, 1, __ATOMIC_RELAXED);
}

static void add_ones(unsigned number)
{
	unsigned adds = unit_scale(300000);

	for (unsigned i = 0; i < adds; i++)
		near_counter_add(&c, 1);
}

static void watch_adds(void (*watcher)(unsigned number))
{
	struct team team;

	taken[0] = backwards = 0;
	team_start(&team, 3, watcher);
	team_run(4, add_ones);
	team_stop(&team);
	assert_int_equal(backwards, 0);
	assert_int_equal(taken[0] + near_counter_reset(&c), 4 * unit_scale(300000));
}

static void reads_never_go_back(void **state)
{
	watch_adds(watch);
	watch_adds(watch_for_less_than_nothing);
}

/* ---- signal handlers and children ---- */

static volatile int64_t in_handler;

static void add_in_handler(int signal)
{
	near_counter_add(&c, 3);
	near_counter_read(&c);
	in_handler += 3;
}

static void handlers_may_add(void **state)
{
	unsigned n = unit_scale(3000000), raised = unit_scale(1000);

	unit_timer(100, add_in_handler);
	for (unsigned i = 0; i < n; i++)
		near_counter_add(&c, 1);
	for (unsigned i = 0; i < raised; i++) {
		raise(SIGALRM);
		near_counter_add(&c, 1);
	}
	unit_timer(0, NULL);
	assert_true(in_handler >= (int64_t)raised * 3);
	assert_int_equal(near_counter_read(&c), (int64_t)n + raised + in_handler);
}

static void a_child_has_its_own_count(void **state)
{
	near_counter_add(&c, 10);
	IN_CHILD() {
		CHECK(near_counter_read(&c) == 10);
		near_counter_add(&c, 5);
		CHECK(near_counter_reset(&c) == 15);
		near_counter_add(&c, 1);
		CHECK(near_counter_read(&c) == 1);
		CHECK(near_counter_read_cached(&c, 0) == 1);
		near_counter_destroy(&c);
		CHECK(near_counter_init(&c) == 0);
		CHECK(near_counter_read(&c) == 0);
	}
	assert_int_equal(near_counter_read(&c), 10);
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read(&c), 11);
}

UNIT_MAIN_EACH(make_counter, destroy_counter, resets_lose_no_add, reads_never_go_back,
	       handlers_may_add, a_child_has_its_own_count)
