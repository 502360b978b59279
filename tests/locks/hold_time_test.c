/* SPDX-License-Identifier: MIT */
/* How soon mutexes are taken again, by a clock that the test moves; and what follows for the
 * unlocks. Each test has threads and mutexes of its own, as both keep what they learned. */
#include "mutex_waiters.h"

#include "parking/timeout.h"
#include "locks/tuning.h"

/* As in src/locks/tuning.c. */
#define QUICK_NS 120
#define SELDOM 64
#define RARELY 1024
#define UNLOCKS_BY_CAS 64

/* Advances with each reading, and with the sections. It is the real clock if reading_ns is -1. */
static int64_t time_ns, reading_ns;
int64_t __real_near__now(clockid_t clock);
int64_t __wrap_near__now(clockid_t clock);

/* Atomic: a thread that sleeps reads the clock concurrently with the one that wakes it. */
static int64_t move_time(int64_t ns)
{
	return __atomic_add_fetch(&time_ns, ns, __ATOMIC_RELAXED);
}

int64_t __wrap_near__now(clockid_t clock)
{
	if (reading_ns < 0)
		return __real_near__now(clock);
	return move_time(reading_ns);
}

/* A wait, and two sections, of which the second ends ns after the first. Whether it was timed. */
static bool section(struct near_mutex *m, int64_t ns)
{
	unsigned result = near__hold_time_waited(m);

	CHECK(result == 0 || result == 2);
	near__hold_time_unlocked(m);
	move_time(ns);
	near__hold_time_unlocked(m);
	return result;
}

/* Of n sections, how many were timed. */
static unsigned sections(struct near_mutex *m, int64_t ns, unsigned n)
{
	unsigned timed = 0;

	while (n--)
		timed += section(m, ns);
	return timed;
}

/* One for each bucket's worth of addresses: no two of a test's share one by chance. */
static struct near_mutex *a_mutex(void)
{
	static struct near_mutex all[4096];
	static unsigned next;

	while (near__lot_bucket(&all[next])->hold_time)
		CHECK(++next < LENGTH(all));
	return &all[next];
}

static void *run_part(void *parts)
{
	(*(void (**)(void))parts)();
	return NULL;
}

/* A test whose parts each have a thread of their own. */
#define IN_THREADS(name, ...)                                                                      \
	static void name(void **state)                                                             \
	{                                                                                          \
		void (*const parts[])(void) = {__VA_ARGS__};                                       \
                                                                                                   \
		for (size_t i = 0; i < LENGTH(parts); i++) {                                       \
			reading_ns = 20;                                                           \
			unit_join(unit_start(run_part, (void *)(uintptr_t)&parts[i]));             \
		}                                                                                  \
	}

static void learn(void)
{
	struct near_mutex *m = a_mutex();

	CHECK(!near__hold_time_is_short(m)); /* not known yet */
	CHECK(section(m, 10));
	CHECK(near__hold_time_is_short(m));
	CHECK(near__lot_bucket(m)->hold_time == 10 + 1); /* the readings do not count */
	m = a_mutex();
	CHECK(sections(m, 1000, RARELY) == 0); /* the next, as the first was not known before */
	CHECK(section(m, 1000));
	CHECK(!near__hold_time_is_short(m));
}

IN_THREADS(a_section_is_timed, learn)

static void learn_a_limit(void)
{
	struct near_mutex *m = a_mutex();

	CHECK(section(m, QUICK_NS));
	CHECK(near__hold_time_is_short(m));
	CHECK(sections(m, 400, RARELY) == 0);
	CHECK(near__hold_time_is_short(m));
	CHECK(section(m, 400));
	CHECK(!near__hold_time_is_short(m));
}

IN_THREADS(up_to_120_ns_are_quick, learn_a_limit)

static void learn_slowly(void)
{
	struct near_mutex *m = a_mutex();
	unsigned longer = 0;

	CHECK(sections(m, 5, RARELY + 2) == 2);
	CHECK(sections(m, 5, SELDOM - 1) == 0);
	for (; near__hold_time_is_short(m); longer++)
		CHECK(sections(m, 200, SELDOM + 1) == 1);
	CHECK(longer == QUICK_NS - 5 + 1);
	CHECK(sections(m, 5, SELDOM + 1) == 1); /* one is enough to bring it back */
	CHECK(near__hold_time_is_short(m));
}

IN_THREADS(longer_sections_lift_it_slowly, learn_slowly)

static void time_rarely(void)
{
	struct near_mutex *longer = a_mutex();

	CHECK(section(longer, 400));
	CHECK(sections(longer, 400, RARELY) == 0);
	CHECK(section(longer, 400));
}

static void have_a_slow_clock(void)
{
	struct near_mutex *m = a_mutex();

	reading_ns = 1000;
	CHECK(section(m, 10));
	CHECK(near__hold_time_is_short(m));
	CHECK(sections(m, 10, RARELY) == 0);
	CHECK(section(m, 10));
	CHECK(sections(m, 10, RARELY) == 0);
}

IN_THREADS(longer_ones_and_slow_clocks_are_timed_rarely, time_rarely, have_a_slow_clock)

static void be_delayed(void)
{
	struct near_mutex *m = a_mutex();

	CHECK(section(m, INT64_C(10000000000)));
	CHECK(!near__hold_time_is_short(m));
	CHECK(near__lot_bucket(m)->hold_time == UINT32_MAX);
	reading_ns = 0;
	CHECK(sections(m, 0, RARELY + 1) == 1);
	CHECK(near__hold_time_is_short(m));
}

IN_THREADS(a_section_may_take_seconds, be_delayed)

static void end_another(void)
{
	struct near_mutex *m = a_mutex(), *other = m + 1;

	CHECK(near__hold_time_waited(m) == 2);
	near__hold_time_unlocked(other);
	near__hold_time_unlocked(m);
	near__hold_time_unlocked(other);
	CHECK(near__lot_bucket(m)->hold_time == 0);
	move_time(7);
	near__hold_time_unlocked(m);
	CHECK(near__lot_bucket(m)->hold_time == 7 + 1);
	near__hold_time_unlocked(m); /* nothing is timed any more */
	near__hold_time_unlocked(m);
	CHECK(near__lot_bucket(m)->hold_time == 7 + 1);
}

static void wait_between(void)
{
	struct near_mutex *m = a_mutex(), *other = m + 1;

	CHECK(near__hold_time_waited(m) == 2);
	near__hold_time_unlocked(m);
	CHECK(near__hold_time_waited(other) == 0);
	near__hold_time_unlocked(m);
	near__hold_time_unlocked(m);
	CHECK(near__lot_bucket(m)->hold_time == 0);
}

IN_THREADS(what_comes_between_does_not_count, end_another, wait_between)

/* ---- what near_mutex makes of it ---- */

static unsigned unlocks_by_cas(void)
{
	return (unsigned)(near__more.owner / NEAR__EXPECTED);
}

static void wait_for_a_slow_one(void)
{
	struct near_mutex *m = a_mutex();

	reading_ns = -1;
	near_mutex_lock(m);
	near_mutex_unlock(m);
	CHECK(unlocks_by_cas() == 0);
	lock_after_a_wait(m, hold_until_waited_for);
	CHECK(unlocks_by_cas() == UNLOCKS_BY_CAS);
	for (unsigned n = UNLOCKS_BY_CAS; n > 0; n--) {
		CHECK(unlocks_by_cas() == n);
		CHECK(near_mutex_is_mine(m));
		near_mutex_unlock(m);
		CHECK(is_at_rest(m));
		near_mutex_lock(m);
		if (n == UNLOCKS_BY_CAS)
			usleep(1000);
	}
	CHECK(near__lot_bucket(m)->hold_time > 1000000);
	near_mutex_unlock(m);
	CHECK(unlocks_by_cas() == 0);
}

static void wait_for_one_where_cpus_are_many(void)
{
	many_cpus(NULL);
	wait_for_a_slow_one();
}

static void wait_for_a_quick_one(void)
{
	struct near_mutex *m = a_mutex();

	CHECK(sections(m, 1, RARELY + 2) == 2);
	lock_after_a_wait(m, hold_until_waited_for);
	CHECK(unlocks_by_cas() == 0);
	near_mutex_unlock(m);
	CHECK(sections(m, 1, SELDOM - 1) == 0);
	lock_after_a_wait(m, hold_until_waited_for); /* it is the turn of this one to be timed */
	CHECK(unlocks_by_cas() == 2);
	near_mutex_unlock(m);
	CHECK(unlocks_by_cas() == 1);
	near_mutex_lock(m);
	move_time(100);
	near_mutex_unlock(m);
	CHECK(unlocks_by_cas() == 0);
	CHECK(near__lot_bucket(m)->hold_time == 1 + 1 + 1);
}

IN_THREADS(a_thread_that_has_waited_unlocks_by_cas, wait_for_a_slow_one,
	   wait_for_one_where_cpus_are_many, wait_for_a_quick_one)

UNIT_MAIN(a_section_is_timed, up_to_120_ns_are_quick, longer_sections_lift_it_slowly,
	  longer_ones_and_slow_clocks_are_timed_rarely, a_section_may_take_seconds,
	  what_comes_between_does_not_count, a_thread_that_has_waited_unlocks_by_cas)
