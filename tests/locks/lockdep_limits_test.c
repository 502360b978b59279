/* SPDX-License-Identifier: MIT */
/* The lock-order checker: its limits, children, what stops a program, settings. */
#include "lockdep_scenarios.h"

#include "locks/locks_state.h"

/* ---- limits ---- */

static void expect_once(const char *line)
{
	assert_int_equal(status, 0);
	assert_int_equal(count(line), 1);
	assert_int_equal(count("nearcpu: "), 1);
}

static void too_many_pairs_are_reported_once(void **state)
{
	CHECKED() {
		unsigned n = NEAR__LOCKDEP_NODES + 100;
		struct near_mutex *all = calloc(n, sizeof(*all));

		CHECK(all);
		in_order(&a, &b);
		for (unsigned i = 0; i < n; i++)
			in_order(&c, &all[i]);
		in_order(&b, &a);
		free(all);
	}
	expect_once("too many pairs of locks");
}

static void too_many_held_are_reported_once(void **state)
{
	CHECKED() {
		struct near_mutex all[NEAR__LOCKDEP_HELD + 10];

		memset(all, 0, sizeof(all));
		for (unsigned i = 0; i < LENGTH(all); i++)
			near_mutex_lock(&all[i]);
		for (unsigned i = 0; i < LENGTH(all); i++)
			near_mutex_unlock(&all[i]);
	}
	expect_once("a thread holds too many locks");
}

static void no_memory_is_reported_once(void **state)
{
	if (UNIT_SANITIZED || unit_emulated())
		skip();
	CHECKED() {
		struct rlimit none = {0, 0}, before;

		CHECK(near__process_init());
		CHECK(getrlimit(RLIMIT_AS, &before) == 0);
		none.rlim_max = before.rlim_max;
		CHECK(setrlimit(RLIMIT_AS, &none) == 0);
		in_order(&a, &b);
		CHECK(setrlimit(RLIMIT_AS, &before) == 0);
		in_order(&b, &a);
	}
	expect_once("no memory to check with: locks are not checked");
}

static void many_threads_need_little_memory(void **state)
{
	CHECKED() {
		for (unsigned i = 0; i < unit_scale(5000); i++)
			by_thread(&a, &b);
		CHECK(near__locks.lockdep->threads_used <= 64);
		by_thread(&b, &a);
	}
	expect_cycles(1);
}

/* ---- forks, stops, settings ---- */

static struct near_sem begun, may_end;

/* As if this thread were in the middle of a change. */
static void *change_and_report(void *unused)
{
	near_lock_lock(&near__locks.lockdep->lock);
	near_lock_lock(&near__locks.lockdep->report_lock);
	near_sem_post(&begun);
	near_sem_wait(&may_end);
	near_lock_unlock(&near__locks.lockdep->report_lock);
	near_lock_unlock(&near__locks.lockdep->lock);
	return unused;
}

static void children_are_checked(void **state)
{
	CHECKED() {
		in_order(&a, &b);
		near_mutex_lock(&c);
		IN_CHILD() {
			CHECK(near_mutex_is_mine(&c));
			CHECK(near__owner_now() >> NEAR__OWNER_SHIFT ==
			      (uint32_t)syscall(SYS_gettid));
			near_mutex_unlock(&c);
			in_order(&b, &a);
		}
		near_mutex_unlock(&c);
	}
	expect_cycles(1);
	CHECKED() {
		pthread_t t;

		in_order(&a, &b);
		t = unit_start(change_and_report, NULL);
		near_sem_wait(&begun);
		IN_CHILD() {
			in_order(&b, &a);
			in_order(&b, &c);
			in_order(&c, &b);
		}
		near_sem_post(&may_end);
		unit_join(t);
	}
	expect_cycles(1);
}

/* As if the handler interrupted a change: the only thread goes on with it. */
static void a_handler_may_fork(void **state)
{
	if (UNIT_THREAD_SANITIZER) /* which has a thread of its own */
		skip();
	CHECKED() {
		in_order(&a, &b);
		near_lock_lock(&near__locks.lockdep->lock);
		IN_CHILD() {
			near_lock_unlock(&near__locks.lockdep->lock);
			in_order(&b, &a);
		}
		near_lock_unlock(&near__locks.lockdep->lock);
	}
	expect_cycles(1);
}

static struct near_sem one_each;

static void *embrace(void *arg)
{
	const struct pair *p = arg;

	near_mutex_lock(p->first);
	near_sem_post(&one_each);
	while (near_sem_read(&one_each) < 2)
		sched_yield();
	near_mutex_lock(p->second);
	return NULL;
}

static void *unlock_there(void *m)
{
	near_mutex_unlock(m);
	return NULL;
}

static void expect_stop(unsigned cycles, const char *line)
{
	assert_int_equal(status, -1);
	assert_int_equal(ended_by, SIGABRT);
	assert_int_equal(count(IN_A_CYCLE), cycles);
	assert_int_equal(count(line), 1);
}

static void programs_are_stopped_by_lock_check_2(void **state)
{
	struct pair there = {&a, &b}, here = {&b, &a};

	conf = "lock_check:2";
	CHECKED() {
		unit_start(embrace, &there);
		embrace(&here);
	}
	expect_stop(1, "nearcpu: lock order: stopped, because of NEAR_CONF=lock_check:2\n");
	conf = "lock_check:1";
	CHECKED() {
		near_mutex_lock(&a);
		near_mutex_lock(&a);
	}
	expect_stop(0, "nearcpu: near_mutex_lock: this thread holds the mutex already\n");
	CHECKED() {
		near_mutex_lock(&a);
		unit_join(unit_start(unlock_there, &a));
	}
	expect_stop(0, "nearcpu: near_mutex_unlock: another thread holds the mutex\n");
}

static void run_unchecked(void)
{
	CHECKED() {
		in_order(&a, &b);
		in_order(&b, &a);
		CHECK(near__more.owner != NEAR__NO_OWNER && !near__locks.lockdep);
		CHECK(!near__locks_thread_peek()->lockdep);
	}
	assert_int_equal(status, 0);
}

static void nothing_is_checked_by_default(void **state)
{
	static const char *const bad[] = {"lock_check:3", "lock_check",
					  "lock_check:", "lock_check:x"};

	conf = "lock_check:0";
	run_unchecked();
	assert_string_equal(reported, "");
	for (unsigned i = 0; i < LENGTH(bad); i++) {
		conf = bad[i];
		run_unchecked();
		expect_once("nearcpu: NEAR_CONF: bad value '");
	}
	conf = "lock_check:1";
}

UNIT_MAIN(too_many_pairs_are_reported_once, too_many_held_are_reported_once,
	  no_memory_is_reported_once, many_threads_need_little_memory, children_are_checked,
	  a_handler_may_fork, programs_are_stopped_by_lock_check_2, nothing_is_checked_by_default)
