/* SPDX-License-Identifier: MIT */
/* How soon mutexes are taken again, by a clock that the test moves; and what follows for the
 * unlocks. Each test has threads and mutexes of its own, as both keep what they learned. */
#include "unit.h"

#include <nearcpu/mutex.h>

#include "parking/timeout.h"
#include "parking/lot.h"
#include "locks/hold_time.h"

/* As in src/locks/hold_time.c and src/locks/mutex.c. */
#define QUICK_NS 120
#define SELDOM 64
#define RARELY 1024
#define UNLOCKS_BY_CAS 64
#define PARKED 1u

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

static void alone(void *(*run)(void *))
{
	reading_ns = 20;
	unit_join(unit_start(run, NULL));
}

static void *learn(void *arg)
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
	return arg;
}

static void a_section_is_timed(void **state)
{
	alone(learn);
}

static void *learn_a_limit(void *arg)
{
	struct near_mutex *m = a_mutex();

	CHECK(section(m, QUICK_NS));
	CHECK(near__hold_time_is_short(m));
	CHECK(sections(m, 400, RARELY) == 0);
	CHECK(near__hold_time_is_short(m));
	CHECK(section(m, 400));
	CHECK(!near__hold_time_is_short(m));
	return arg;
}

static void up_to_120_ns_are_quick(void **state)
{
	alone(learn_a_limit);
}

static void *learn_slowly(void *arg)
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
	return arg;
}

static void longer_sections_lift_it_slowly(void **state)
{
	alone(learn_slowly);
}

static void *time_rarely(void *arg)
{
	struct near_mutex *longer = a_mutex();

	CHECK(section(longer, 400));
	CHECK(sections(longer, 400, RARELY) == 0);
	CHECK(section(longer, 400));
	return arg;
}

static void *have_a_slow_clock(void *arg)
{
	struct near_mutex *m = a_mutex();

	reading_ns = 1000;
	CHECK(section(m, 10));
	CHECK(near__hold_time_is_short(m));
	CHECK(sections(m, 10, RARELY) == 0);
	CHECK(section(m, 10));
	CHECK(sections(m, 10, RARELY) == 0);
	return arg;
}

static void longer_ones_and_slow_clocks_are_timed_rarely(void **state)
{
	alone(time_rarely);
	alone(have_a_slow_clock);
}

static void *be_delayed(void *arg)
{
	struct near_mutex *m = a_mutex();

	CHECK(section(m, INT64_C(10000000000)));
	CHECK(!near__hold_time_is_short(m));
	CHECK(near__lot_bucket(m)->hold_time == UINT32_MAX);
	reading_ns = 0;
	CHECK(sections(m, 0, RARELY + 1) == 1);
	CHECK(near__hold_time_is_short(m));
	return arg;
}

static void a_section_may_take_seconds(void **state)
{
	alone(be_delayed);
}

static void *end_another(void *arg)
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
	return arg;
}

static void *wait_between(void *arg)
{
	struct near_mutex *m = a_mutex(), *other = m + 1;

	CHECK(near__hold_time_waited(m) == 2);
	near__hold_time_unlocked(m);
	CHECK(near__hold_time_waited(other) == 0);
	near__hold_time_unlocked(m);
	near__hold_time_unlocked(m);
	CHECK(near__lot_bucket(m)->hold_time == 0);
	return arg;
}

static void what_comes_between_does_not_count(void **state)
{
	alone(end_another);
	alone(wait_between);
}

/* ---- what near_mutex makes of it ---- */

static void *let_one_wait(void *arg)
{
	struct near_mutex *m = arg;

	near_mutex_lock(m);
	while (!(__atomic_load_n(&m->word, __ATOMIC_ACQUIRE) & PARKED))
		usleep(100);
	near_mutex_unlock(m);
	return NULL;
}

static void lock_after_a_wait(struct near_mutex *m)
{
	pthread_t t = unit_start(let_one_wait, m);

	while (!__atomic_load_n(&m->word, __ATOMIC_ACQUIRE))
		usleep(100);
	near_mutex_lock(m);
	unit_join(t);
}

static unsigned unlocks_by_cas(void)
{
	return (unsigned)(near__owner / NEAR__EXPECTED);
}

static void *wait_for_a_slow_one(void *arg)
{
	struct near_mutex *m = a_mutex();

	reading_ns = -1;
	near_mutex_lock(m);
	near_mutex_unlock(m);
	CHECK(unlocks_by_cas() == 0);
	lock_after_a_wait(m);
	CHECK(unlocks_by_cas() == UNLOCKS_BY_CAS);
	for (unsigned n = UNLOCKS_BY_CAS; n > 0; n--) {
		CHECK(unlocks_by_cas() == n);
		CHECK(near_mutex_is_mine(m));
		near_mutex_unlock(m);
		CHECK(__atomic_load_n(&m->word, __ATOMIC_RELAXED) == 0);
		near_mutex_lock(m);
		if (n == UNLOCKS_BY_CAS)
			usleep(1000);
	}
	CHECK(near__lot_bucket(m)->hold_time > 1000000);
	near_mutex_unlock(m);
	CHECK(unlocks_by_cas() == 0);
	return arg;
}

static void *wait_for_a_quick_one(void *arg)
{
	struct near_mutex *m = a_mutex();

	CHECK(sections(m, 1, RARELY + 2) == 2);
	lock_after_a_wait(m);
	CHECK(unlocks_by_cas() == 0);
	near_mutex_unlock(m);
	CHECK(sections(m, 1, SELDOM - 1) == 0);
	lock_after_a_wait(m); /* it is the turn of this one to be timed */
	CHECK(unlocks_by_cas() == 2);
	near_mutex_unlock(m);
	CHECK(unlocks_by_cas() == 1);
	near_mutex_lock(m);
	move_time(100);
	near_mutex_unlock(m);
	CHECK(unlocks_by_cas() == 0);
	CHECK(near__lot_bucket(m)->hold_time == 1 + 1 + 1);
	return arg;
}

static void a_thread_that_has_waited_unlocks_by_cas(void **state)
{
	alone(wait_for_a_slow_one);
	alone(wait_for_a_quick_one);
}

UNIT_MAIN(a_section_is_timed, up_to_120_ns_are_quick, longer_sections_lift_it_slowly,
	  longer_ones_and_slow_clocks_are_timed_rarely, a_section_may_take_seconds,
	  what_comes_between_does_not_count, a_thread_that_has_waited_unlocks_by_cas)
