/* SPDX-License-Identifier: MIT */
/* near_refcount among threads: the callback runs once, after the last put, and sees what was
 * done before each put; kills and revivals concurrent with gets and puts; signal handlers,
 * children, a filter. */
#include <nearcpu/refcount.h>

#include "filter.h"
#include "live.h"
#include "percpu/percpu.h"
#include "team.h"

static struct near_refcount ref;
static unsigned released;

/* ---- the callback ---- */

#define THREADS 6

static struct {
	uint64_t written[THREADS]; /* plain: only the order of puts protects them */
	unsigned rounds;
} work;

static void check_all_written(struct near_refcount *r)
{
	CHECK(r == &ref);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(work.written[i] == work.rounds);
	__atomic_add_fetch(&released, 1, __ATOMIC_RELAXED);
}

static pthread_barrier_t barrier;

static void write_and_put(unsigned number)
{
	near_refcount_get(&ref);
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < work.rounds; i++) {
		near_refcount_get(&ref);
		if (number % 2)
			CHECK(near_refcount_try_get(&ref));
		work.written[number]++;
		near_refcount_put(&ref);
		if (number % 2)
			near_refcount_put(&ref);
	}
	near_refcount_put(&ref);
}

/* Kills while threads get and put: each still holds a reference of its own. */
static void the_callback_runs_once_after_all_puts(void **state)
{
	unsigned rounds = unit_scale(100);
	struct team team;

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	work.rounds = 500;
	for (unsigned k = 1; k <= rounds; k++) {
		released = 0;
		memset(work.written, 0, sizeof(work.written));
		assert_int_equal(near_refcount_init(&ref, check_all_written), 0);
		team_start(&team, THREADS, write_and_put);
		pthread_barrier_wait(&barrier);
		if (k % 3)
			usleep(k % 200);
		near_refcount_kill(&ref);
		team_join(&team);
		assert_int_equal(released, 1);
		assert_true(near_refcount_is_zero(&ref));
		near_refcount_destroy(&ref);
	}
	pthread_barrier_destroy(&barrier);
}

/* ---- kill and revive ---- */

static bool in_service; /* false from the callback on, until the revival */
static unsigned entered;

static void close_service(struct near_refcount *r)
{
	CHECK(__atomic_exchange_n(&in_service, false, __ATOMIC_SEQ_CST));
	__atomic_add_fetch(&released, 1, __ATOMIC_RELAXED);
}

/* Every second thread is not live. */
static void enter_and_leave(unsigned number)
{
	uint64_t seed = number;

	if (number % 2 == 0)
		play_dead();
	while (team_continues()) {
		bool live = unit_random(&seed) % 2;

		if (!(live ? near_refcount_try_get_live(&ref) : near_refcount_try_get(&ref))) {
			sched_yield();
			continue;
		}
		__atomic_add_fetch(&entered, 1, __ATOMIC_RELAXED);
		for (unsigned i = unit_random(&seed) % 4; i; i--) {
			CHECK(__atomic_load_n(&in_service, __ATOMIC_SEQ_CST));
			near_refcount_get(&ref);
			near_refcount_put(&ref);
		}
		CHECK(__atomic_load_n(&in_service, __ATOMIC_SEQ_CST));
		near_refcount_put(&ref);
	}
}

static void a_thread_with_a_reference_is_served(void **state)
{
	unsigned rounds = unit_scale(30);
	struct team team;

	assert_int_equal(near_refcount_init(&ref, close_service), 0);
	in_service = true;
	released = entered = 0;
	team_start(&team, 4, enter_and_leave);
	for (unsigned k = 1; k <= rounds; k++) {
		for (unsigned i = k % 8; i; i--)
			sched_yield();
		near_refcount_kill(&ref);
		while (!near_refcount_is_zero(&ref) ||
		       __atomic_load_n(&released, __ATOMIC_RELAXED) != k)
			sched_yield();
		__atomic_store_n(&in_service, true, __ATOMIC_SEQ_CST);
		near_refcount_revive(&ref);
	}
	/* It is in service now: a thread gets a reference. */
	while (!__atomic_load_n(&entered, __ATOMIC_RELAXED))
		sched_yield();
	team_stop(&team);
	near_refcount_kill(&ref);
	assert_int_equal(released, rounds + 1);
	near_refcount_destroy(&ref);
}

/* The thread that revives holds a reference: the callback never runs. */
static void never(struct near_refcount *r)
{
	CHECK(false);
}

static void get_and_put(unsigned number)
{
	while (team_continues()) {
		near_refcount_get(&ref);
		near_refcount_get(&ref);
		near_refcount_put(&ref);
		near_refcount_put(&ref);
	}
}

static void no_reference_is_lost_between_kill_and_revive(void **state)
{
	unsigned rounds = unit_scale(100);
	struct team team;

	assert_int_equal(near_refcount_init(&ref, never), 0);
	near_refcount_get(&ref);
	team_start(&team, 3, get_and_put);
	for (unsigned k = 0; k < rounds; k++) {
		near_refcount_kill(&ref);
		if (k % 4 == 0)
			sched_yield();
		near_refcount_revive(&ref);
		if (k % 4 == 1)
			sched_yield();
	}
	team_stop(&team);
	near_refcount_kill(&ref);
	assert_int_equal(ref.exact, 1);
	ref.release = NULL;
	near_refcount_put(&ref);
	assert_true(near_refcount_is_zero(&ref));
	near_refcount_destroy(&ref);
}

/* Different counts share the lock of the gates. */
static void kill_own(unsigned rounds)
{
	struct near_refcount own;

	CHECK(near_refcount_init(&own, NULL) == 0);
	for (unsigned i = 0; i < rounds; i++) {
		near_refcount_get(&own);
		near_refcount_kill(&own);
		CHECK(!near_refcount_is_zero(&own));
		near_refcount_put(&own);
		CHECK(near_refcount_is_zero(&own));
		near_refcount_revive(&own);
	}
	near_refcount_kill(&own);
	CHECK(near_refcount_is_zero(&own));
	near_refcount_destroy(&own);
}

static void kill_own_often(unsigned number)
{
	kill_own(unit_scale(60));
}

static void counts_are_killed_side_by_side(void **state)
{
	team_run(8, kill_own_often);
}

/* ---- signal handlers, children, a filter ---- */

static volatile sig_atomic_t handled;

static void get_in_handler(int signal)
{
	near_refcount_get(&ref);
	if (near_refcount_try_get(&ref))
		near_refcount_put(&ref);
	near_refcount_put(&ref);
	handled++;
}

static void handlers_may_get_and_put(void **state)
{
	unsigned rounds = unit_scale(300000);

	assert_int_equal(near_refcount_init(&ref, never), 0);
	near_refcount_get(&ref);
	unit_timer(100, get_in_handler);
	for (unsigned i = 0; i < rounds; i++) {
		near_refcount_get(&ref);
		near_refcount_put(&ref);
		if (i % 3000 == 0) {
			near_refcount_kill(&ref);
			near_refcount_revive(&ref);
		}
	}
	raise(SIGALRM);
	unit_timer(0, NULL);
	assert_true(handled > 0);
	near_refcount_kill(&ref);
	assert_int_equal(ref.exact, 1);
	near_refcount_destroy(&ref);
}

static void kill_until_stop(unsigned number)
{
	while (team_continues())
		kill_own(10);
}

static void a_child_has_its_own_count(void **state)
{
	unsigned rounds = unit_scale(60);
	struct team team;

	assert_int_equal(near_refcount_init(&ref, NULL), 0);
	near_refcount_get(&ref);
	/* ThreadSanitizer does not like children of many threads. */
	team_start(&team, UNIT_THREAD_SANITIZER ? 0 : 3, kill_until_stop);
	for (unsigned i = 0; i < rounds; i++)
		IN_CHILD() {
			near_refcount_get(&ref);
			near_refcount_kill(&ref);
			near_refcount_put(&ref);
			CHECK(!near_refcount_is_zero(&ref));
			near_refcount_put(&ref);
			CHECK(near_refcount_is_zero(&ref));
			near_refcount_revive(&ref);
			CHECK(near_refcount_try_get_live(&ref));
		}
	team_stop(&team);
	near_refcount_kill(&ref);
	assert_false(near_refcount_is_zero(&ref));
	near_refcount_put(&ref);
	assert_true(near_refcount_is_zero(&ref));
	near_refcount_destroy(&ref);
}

/* What the sequences rest on was taken away: better to stop than to count wrongly. */
static void a_late_filter_stops_the_program(void **state)
{
	if (unit_emulated() || !near__process.usable)
		skip();
	assert_int_equal(near_refcount_init(&ref, NULL), 0);
	DIES("membarrier stopped working (a filter installed after start?); "
	     "start the program with NEAR_CONF=rseq:off") {
		filter_out(NEAR__SYS_MEMBARRIER, ENOSYS);
		near_refcount_kill(&ref);
	}
	near_refcount_destroy(&ref);
}

UNIT_MAIN(the_callback_runs_once_after_all_puts, a_thread_with_a_reference_is_served,
	  no_reference_is_lost_between_kill_and_revive, counts_are_killed_side_by_side,
	  handlers_may_get_and_put, a_child_has_its_own_count, a_late_filter_stops_the_program)
