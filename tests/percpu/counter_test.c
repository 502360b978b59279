/* SPDX-License-Identifier: MIT */
/* near_counter: sums and the cache; threads, with resets that lose nothing and reads that never go
 * back; signal handlers, forked children. The program is linked with --wrap=clock_gettime and
 * clock_getres: the cache's clock is the test's, if it sets one. */
#include <nearcpu/counter.h>

#include "slots.h"

#include "clock.h"
#include "team.h"

/* ---- the clock ---- */

static struct {
	bool ours;
	uint64_t ns;
	unsigned readings;
	struct near_counter *added_to; /* by another thread, between two readings of the clock */
} coarse;

static int64_t monotonic; /* 0: the real clock */

static int64_t clock_of_test(clockid_t clock)
{
	if (monotonic && clock == CLOCK_MONOTONIC)
		return monotonic;
	if (!coarse.ours || clock != CLOCK_MONOTONIC_COARSE)
		return REAL_CLOCK;
	coarse.readings++;
	if (coarse.added_to && coarse.readings % 2 == 0)
		near_counter_add(coarse.added_to, 1);
	return (int64_t)coarse.ns;
}

/* The coarse clock may be behind by this, so that a count is older than its stamp. */
#define TICK 50

int __wrap_clock_getres(clockid_t clock, struct timespec *t) WIDE_NAME("__wrap___clock_getres64");

int __wrap_clock_getres(clockid_t clock, struct timespec *t)
{
	CHECK(clock == CLOCK_MONOTONIC_COARSE);
	*t = (struct timespec){.tv_nsec = TICK};
	return 0;
}

/* ---- one thread ---- */

static struct near_counter c; /* a new one in each test */

static int make_counter(void **state)
{
	memset(&c, 0x5a, sizeof(c));
	KEEPS_ERRNO(assert_int_equal(near_counter_init(&c), 0));
	KEEPS_ERRNO(assert_int_equal(near_counter_read(&c), 0));
	return 0;
}

static int destroy_counter(void **state)
{
	coarse.ours = false;
	slots_leave();
	near_counter_destroy(&c);
	assert_null(c.p);
	return 0;
}

/* From now on the coarse clock is the test's. */
static void set_clock(uint64_t ns)
{
	coarse.ours = true;
	coarse.ns = ns;
	coarse.readings = 0;
}

static int64_t cached(uint64_t max_age)
{
	return near_counter_read_cached(&c, max_age);
}

static void adds_are_summed(void **state)
{
	static const int64_t numbers[] = {0,  1,         -1,        5,         -7, INT32_MAX,
					  17, INT32_MIN, INT64_MAX, INT64_MIN, 1,  INT64_MAX};
	uint64_t sum = 0;

	errno = UNIT_ERRNO;
	for (unsigned i = 0; i < LENGTH(numbers); i++) {
		near_counter_add(&c, numbers[i]);
		sum += (uint64_t)numbers[i];
		assert_int_equal(near_counter_read(&c), (int64_t)sum);
	}
	assert_int_equal(near_counter_reset(&c), (int64_t)sum);
	assert_int_equal(near_counter_read(&c), 0);
	assert_int_equal(near_counter_reset(&c), 0);
	assert_int_equal(errno, UNIT_ERRNO);
}

static void sums_wrap(void **state)
{
	near_counter_add(&c, INT64_MAX);
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read(&c), INT64_MIN);
	slots_enter(3);
	near_counter_add(&c, INT64_MIN);
	assert_int_equal(near_counter_read(&c), 0);
	near_counter_add(&c, INT64_MIN);
	slots_enter(4);
	near_counter_add(&c, -1);
	assert_int_equal(near_counter_reset(&c), INT64_MAX);
	near_counter_add(&c, -2);
	assert_int_equal(near_counter_read(&c), -2);
	assert_int_equal(near_counter_reset(&c), -2);
}

static void every_slot_counts(void **state)
{
	int64_t sum = 0;

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
			slots_enter(slot);
			near_counter_add(&c, slot * 3 - 50);
			sum += slot * 3 - 50;
		}
		assert_int_equal(near_counter_read(&c), sum);
	}
	assert_int_equal(near_counter_reset(&c), sum);
	assert_int_equal(near_counter_read(&c), 0);
	slots_leave();
	near_counter_destroy(&c);
	/* The next owner of the memory begins at 0. */
	make_counter(state);
}

static void without_memory_init_fails(void **state)
{
	struct near_counter more;
	struct rlimit limit, none;

	if (unit_emulated() || UNIT_SANITIZED)
		skip();
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	for (unsigned i = 0; i < 200000 && near_counter_init(&more) == 0; i++)
		;
	assert_int_equal(near_counter_init(&more), -ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_int_equal(near_counter_init(&more), 0);
	near_counter_destroy(&more);
}

/* ---- the cache ---- */

static void a_cached_read_is_as_old_as_it_may_be(void **state)
{
	set_clock(1000);
	near_counter_add(&c, 1);
	assert_int_equal(cached(100), 1); /* fills the cache */
	near_counter_add(&c, 1);
	assert_int_equal(cached(100), 1);
	coarse.ns += 100;
	assert_int_equal(cached(100 + TICK), 1);
	assert_int_equal(cached(99 + TICK), 2); /* too old: filled again */
	near_counter_add(&c, 1);
	assert_int_equal(cached(TICK), 2); /* the same moment of the clock */
	coarse.ns += 1;
	assert_int_equal(cached(TICK), 3);
	near_counter_add(&c, 1);
	coarse.ns += UINT64_C(1000000000000);
	assert_int_equal(cached(UINT64_MAX), 3);
	assert_int_equal(near_counter_read(&c), 4);
	/* Nothing from before a reset is served after it. */
	assert_int_equal(near_counter_reset(&c), 4);
	assert_int_equal(cached(UINT64_MAX), 0);
}

/* A count of this very moment of the clock may be a tick old. */
static void within_a_tick_nothing_is_cached(void **state)
{
	set_clock(1000);
	for (int64_t n = 1; n < 4; n++) {
		near_counter_add(&c, 1);
		assert_int_equal(cached(TICK - 1), n);
		assert_int_equal(cached(0), n);
	}
	assert_int_equal(coarse.readings, 0);
	assert_int_equal(c.stamp, 0);
	/* What is there already is not served either. */
	assert_int_equal(cached(TICK), 3);
	near_counter_add(&c, 1);
	assert_int_equal(cached(TICK), 3);
	assert_int_equal(cached(TICK - 1), 4);
}

/* The stamp is taken before the sum: an add in between may make the sum newer, never older. */
static void the_cache_is_not_older_than_its_stamp(void **state)
{
	int64_t seen;

	set_clock(5000);
	coarse.added_to = &c;
	seen = cached(10 + TICK);
	coarse.added_to = NULL;
	assert_int_equal(seen, near_counter_read(&c));
	assert_true(seen >= 1);
	assert_int_equal(cached(10 + TICK), seen);
}

static void the_clock_may_start_at_zero(void **state)
{
	set_clock(0);
	near_counter_add(&c, 1);
	assert_int_equal(cached(10 + TICK), 1);
	near_counter_add(&c, 1);
	assert_int_equal(cached(10 + TICK), 1);
}

static void a_writer_lost_in_a_fork_does_not_keep_the_cache(void **state)
{
	/* As if another thread of this process were just filling it. */
	c.writer = near__process.forks + 1;
	set_clock(1000);
	near_counter_add(&c, 0);
	assert_int_equal(cached(100), 0);
	assert_int_equal(c.stamp, 0); /* left to the writer */
	coarse.ours = false;
	IN_CHILD() {
		set_clock(1000);
		near_counter_add(&c, 1);
		CHECK(cached(100) == 1);
		near_counter_add(&c, 1);
		CHECK(cached(100) == 1); /* it was filled all the same */
	}
}

/* ---- rates ---- */

static void each_reader_has_its_own_rate(void **state)
{
	struct near_rate scraper = {0}, logger = {0};

	monotonic = 5000000000;
	near_counter_add(&c, 100);
	KEEPS_ERRNO(assert_true(near_rate_update(&scraper, near_counter_read(&c)) == 0));
	assert_true(near_rate_update(&logger, near_counter_read(&c)) == 0);
	near_counter_add(&c, 10);
	/* No time has passed: the next call has it. */
	assert_true(near_rate_update(&scraper, near_counter_read(&c)) == 0);
	monotonic += 500000000;
	assert_true(near_rate_update(&scraper, near_counter_read(&c)) == 20);
	near_counter_add(&c, 30);
	monotonic += 1500000000;
	assert_true(near_rate_update(&scraper, near_counter_read(&c)) == 20);
	assert_true(near_rate_update(&logger, near_counter_read(&c)) == 20);
	monotonic += 2000000000;
	assert_true(near_rate_update(&scraper, near_counter_read(&c)) == 0);
	near_counter_reset(&c);
	assert_true(near_rate_update(&logger, near_counter_read(&c)) == -70);
	monotonic = 0;
}

static void rates_wrap_with_their_count(void **state)
{
	struct near_rate r = {0};

	monotonic = 1;
	near_rate_update(&r, INT64_MAX);
	monotonic += 1000000000;
	assert_true(near_rate_update(&r, INT64_MIN + 4) == 5);
	monotonic = 0;
}

/* ---- threads ---- */

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

UNIT_MAIN_EACH(make_counter, destroy_counter, adds_are_summed, sums_wrap, every_slot_counts,
	       a_cached_read_is_as_old_as_it_may_be, within_a_tick_nothing_is_cached,
	       the_cache_is_not_older_than_its_stamp, the_clock_may_start_at_zero,
	       each_reader_has_its_own_rate, rates_wrap_with_their_count,
	       a_writer_lost_in_a_fork_does_not_keep_the_cache, without_memory_init_fails,
	       resets_lose_no_add, reads_never_go_back, handlers_may_add, a_child_has_its_own_count)
