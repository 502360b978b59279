/* SPDX-License-Identifier: MIT */
/* near_gauge: sets, raises and lowers; threads, of whose numbers the greatest remains, and each is
 * in one exchange; signal handlers, forked children, processes that share one. */
#include <nearcpu/gauge.h>

#include "team.h"

static struct near_gauge g;

static int clear_gauge(void **state)
{
	memset(&g, 0, sizeof(g));
	return 0;
}

static void numbers_are_set(void **state)
{
	static const int64_t numbers[] = {0, 1, -1, INT64_MAX, INT64_MIN, 42};

	errno = UNIT_ERRNO;
	for (unsigned i = 0; i < LENGTH(numbers); i++) {
		near_gauge_set(&g, numbers[i]);
		assert_int_equal(near_gauge_read(&g), numbers[i]);
	}
	near_gauge_add(&g, -50);
	assert_int_equal(near_gauge_read(&g), -8);
	near_gauge_set(&g, INT64_MAX);
	near_gauge_add(&g, 1);
	assert_int_equal(near_gauge_exchange(&g, 7), INT64_MIN);
	assert_int_equal(near_gauge_read(&g), 7);
	assert_int_equal(errno, UNIT_ERRNO);
}

static void only_greater_numbers_raise(void **state)
{
	near_gauge_set_max(&g, -1);
	assert_int_equal(near_gauge_read(&g), 0);
	near_gauge_set_max(&g, 5);
	near_gauge_set_max(&g, 4);
	near_gauge_set_max(&g, 5);
	assert_int_equal(near_gauge_read(&g), 5);
	near_gauge_set(&g, INT64_MIN);
	near_gauge_set_max(&g, INT64_MIN + 1);
	assert_int_equal(near_gauge_read(&g), INT64_MIN + 1);
}

static void only_smaller_numbers_lower(void **state)
{
	near_gauge_set_min(&g, 1);
	assert_int_equal(near_gauge_read(&g), 0);
	near_gauge_set_min(&g, -5);
	near_gauge_set_min(&g, -4);
	near_gauge_set_min(&g, -5);
	assert_int_equal(near_gauge_read(&g), -5);
	near_gauge_set(&g, INT64_MAX);
	near_gauge_set_min(&g, INT64_MAX - 1);
	assert_int_equal(near_gauge_read(&g), INT64_MAX - 1);
}

/* ---- threads ---- */

#define RAISERS 4
static int64_t greatest[RAISERS], least[RAISERS], seen[2];
static struct near_gauge low;

static void raise_many(unsigned number)
{
	unsigned n = unit_scale(200000);
	uint64_t seed = number + 1;

	for (unsigned i = 0; i < n; i++) {
		/* Rising, so that many of them change it. */
		int64_t value = (int64_t)(i * 16 + unit_random(&seed) % 4096);

		near_gauge_set_max(&g, value);
		near_gauge_set_min(&low, -value);
		near_gauge_add(number % 2 ? &low : &g, 0);
		greatest[number] = value > greatest[number] ? value : greatest[number];
		least[number] = -value < least[number] ? -value : least[number];
	}
}

static void exchange_many(unsigned number)
{
	while (team_continues()) {
		int64_t was = near_gauge_exchange(&g, 0);

		seen[number] = was > seen[number] ? was : seen[number];
		sched_yield();
	}
}

static unsigned backwards;

static void watch_it_rise(unsigned number)
{
	int64_t last = 0;

	while (team_continues()) {
		int64_t now = near_gauge_read(&g);

		if (now < last)
			__atomic_add_fetch(&backwards, 1, __ATOMIC_RELAXED);
		last = now;
	}
}

static int64_t most_of(const int64_t *numbers, unsigned n, int64_t most)
{
	for (unsigned i = 0; i < n; i++)
		most = numbers[i] > most ? numbers[i] : most;
	return most;
}

static void the_greatest_of_all_threads_remains(void **state)
{
	int64_t lowest = 0;
	struct team team;

	memset(greatest, 0, sizeof(greatest));
	memset(least, 0, sizeof(least));
	near_gauge_set(&low, 0);
	team_start(&team, 2, watch_it_rise);
	team_run(RAISERS, raise_many);
	team_stop(&team);
	for (unsigned i = 0; i < RAISERS; i++)
		lowest = least[i] < lowest ? least[i] : lowest;
	assert_int_equal(near_gauge_read(&g), most_of(greatest, RAISERS, 0));
	assert_int_equal(near_gauge_read(&low), lowest);
	assert_int_equal(backwards, 0);
}

static void an_exchange_loses_no_greatest(void **state)
{
	struct team team;

	memset(greatest, 0, sizeof(greatest));
	memset(seen, 0, sizeof(seen));
	team_start(&team, LENGTH(seen), exchange_many);
	team_run(RAISERS, raise_many);
	team_stop(&team);
	assert_int_equal(most_of(seen, LENGTH(seen), near_gauge_read(&g)),
			 most_of(greatest, RAISERS, 0));
}

static void add_ones(unsigned number)
{
	for (unsigned i = unit_scale(100000); i; i--)
		near_gauge_add(&g, number % 2 ? 3 : -1);
}

static void adds_are_not_lost(void **state)
{
	team_run(RAISERS, add_ones);
	assert_int_equal(near_gauge_read(&g), 2 * 2 * unit_scale(100000));
}

/* ---- signal handlers, children, processes ---- */

static int64_t in_handler;

static void raise_in_handler(int signal)
{
	near_gauge_add(&g, 1);
	in_handler++;
	near_gauge_set_max(&low, near_gauge_read(&low) + 1);
}

static void handlers_may_change_it(void **state)
{
	near_gauge_set(&low, 0);
	in_handler = 0;
	unit_timer(100, raise_in_handler);
	for (unsigned i = unit_scale(1000000); i; i--) {
		near_gauge_add(&g, 0);
		near_gauge_set_max(&low, 0);
	}
	unit_timer(0, NULL);
	raise_in_handler(0);
	assert_int_equal(near_gauge_read(&g), in_handler);
	assert_int_equal(near_gauge_read(&low), in_handler);
}

static void a_child_has_its_own(void **state)
{
	near_gauge_set(&g, 3);
	IN_CHILD() {
		CHECK(near_gauge_read(&g) == 3);
		near_gauge_set_max(&g, 9);
		CHECK(near_gauge_read(&g) == 9);
	}
	assert_int_equal(near_gauge_read(&g), 3);
}

static void processes_may_share_one(void **state)
{
	struct near_gauge *shared =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(shared, MAP_FAILED);
	IN_CHILD() {
		near_gauge_set_max(shared, 11);
	}
	near_gauge_set_max(shared, 10);
	assert_int_equal(near_gauge_read(shared), 11);
	munmap(shared, 4096);
}

UNIT_MAIN_EACH(clear_gauge, NULL, numbers_are_set, only_greater_numbers_raise,
	       only_smaller_numbers_lower, the_greatest_of_all_threads_remains,
	       an_exchange_loses_no_greatest, adds_are_not_lost, handlers_may_change_it,
	       a_child_has_its_own, processes_may_share_one)
