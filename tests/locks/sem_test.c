/* SPDX-License-Identifier: MIT */
/* near_sem: units and sleepers. The program is linked with --wrap=clock_gettime. */
#include "clock.h"
#include "waiters.h"

#define MS 1000000
#define FROZEN_NS (1000 * INT64_C(1000000000))

/* By how many ns CLOCK_MONOTONIC shows more than FROZEN_NS. A reservation needs a millisecond. */
static int64_t shown;

static int64_t clock_of_test(clockid_t clock)
{
	return clock == CLOCK_MONOTONIC ? FROZEN_NS + __atomic_load_n(&shown, __ATOMIC_RELAXED)
					: REAL_CLOCK;
}

static void advance(int64_t ns)
{
	__atomic_fetch_add(&shown, ns, __ATOMIC_RELAXED);
}

static void units_are_counted(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(2), zero = {0};

	assert_int_equal(sizeof(s), 4);
	assert_int_equal(near_sem_read(&s), 2);
	near_sem_wait(&s);
	assert_true(near_sem_try_wait(&s));
	assert_false(near_sem_try_wait(&s));
	assert_int_equal(near_sem_post(&s), 0);
	assert_int_equal(near_sem_read(&s), 1);
	assert_int_equal(near_sem_wait_until(&s, 4711, NULL, NULL), 0);
	assert_int_equal(near_sem_read(&zero), 0);
	assert_false(near_sem_try_wait(&zero));
	near_sem_init(&s, NEAR_SEM_MAX);
	assert_int_equal(near_sem_read(&s), NEAR_SEM_MAX);
	assert_int_equal(near_sem_post(&s), -EOVERFLOW);
	near_sem_wait(&s);
	assert_int_equal(near_sem_post(&s), 0);
}

static void old_sleepers_get_units_in_their_order(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct waiter w[4];
	unsigned order = 0;

	start_waiters(w, 4, (struct waiter){.kind = &wait_sem, .on = &s, .order = &order});
	for (unsigned i = 0; i < 4; i++) {
		advance(MS + 1);
		assert_int_equal(near_sem_post(&s), 0);
		expect(&w[i], 0);
		assert_int_equal(w[i].turn, i + 1);
	}
	assert_int_equal(s.word, 0);
	assert_int_equal(near_sem_post(&s), 0);
	assert_int_equal(near_sem_read(&s), 1);
}

/* The sleeper that a post has woken may be faster: until it is not. */
static void a_running_thread_takes_a_young_sleepers_unit(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct waiter w = {.kind = &wait_sem, .on = &s};
	bool taken;

	do {
		start_waiter(&w);
		assert_int_equal(near_sem_post(&s), 0);
		taken = near_sem_try_wait(&s);
		if (!taken)
			expect(&w, 0);
	} while (!taken);
	UNTIL(waits_of(&w) == 1 && !near__lot_bucket(&s)->waking);
	assert_int_equal(s.word, 1);
	assert_int_equal(near_sem_post(&s), 0);
	expect(&w, 0);
	assert_int_equal(s.word, 0);
}

/* Whether a post reserved its unit is recorded in the bucket. */
static void units_are_reserved_at_intervals(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct near__bucket *b = near__lot_bucket(&s);
	struct waiter w[3];
	uint64_t reserved;

	start_waiters(w, 3, (struct waiter){.kind = &wait_sem, .on = &s});
	advance(MS + 1);
	assert_int_equal(near_sem_post(&s), 0);
	expect(&w[0], 0);
	reserved = FROZEN_NS + (uint64_t)shown;
	assert_int_equal(b->handoff_at, reserved);
	advance(NEAR__HANDOVER_NS);
	assert_int_equal(near_sem_post(&s), 0);
	expect(&w[1], 0);
	assert_int_equal(b->handoff_at, reserved);
	advance(1);
	assert_int_equal(near_sem_post(&s), 0);
	expect(&w[2], 0);
	assert_int_equal(b->handoff_at, reserved + NEAR__HANDOVER_NS + 1);
}

/* A designated waker that the test plays does not arrive: the first post after it was designated
 * adds a unit without another one, the second post designates the sleeper. */
static void a_designated_waker_is_enough_for_one_unit(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct near__bucket *b = near__lot_bucket(&s);
	struct waiter w = {.kind = &wait_sem, .on = &s};

	start_waiter(&w);
	near__lot_lock(&s);
	b->waking = &s;
	near__lot_unlock(b);
	assert_int_equal(near_sem_post(&s), 0);
	assert_int_equal(waits_of(&w), 1);
	assert_int_equal(s.word, 3);
	assert_int_equal(near_sem_post(&s), 0);
	expect(&w, 0);
	assert_int_equal(s.word, 2);
	assert_null(b->waking);
}

/* The designated waker, which the test plays, may be delayed for as long as others wait. */
static void a_sleeper_that_gives_up_takes_a_unit_that_is_there(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct waiter w = {.kind = &wait_sem, .on = &s, .cancel = &token};
	struct near__bucket *b = near__lot_bucket(&s);

	start_waiter(&w);
	near__lot_lock(&s);
	b->waking = &s;
	near__lot_unlock(b);
	assert_int_equal(near_sem_post(&s), 0);
	near_cancel_set(&token);
	expect(&w, 0);
	assert_int_equal(near_sem_read(&s), 0);
	b->waking = NULL;
}

static void post_to_a_sleeper(void *arg)
{
	struct waiter w = {.kind = &wait_sem, .on = arg};

	start_waiter(&w);
	CHECK(near_sem_post(arg) == 0);
	unit_join(w.thread);
}

/* The thread that would be the designated waker does not exist in the child. */
static void a_child_forgets_designated_wakers(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct near__bucket *b = near__lot_lock(&s);

	b->waking = &s;
	near__lot_unlock(b);
	assert_int_equal(unit_wait(unit_fork(post_to_a_sleeper, &s), NULL), 0);
	b->waking = NULL;
}

/* The unit is added while the sleeper waits for the bucket. */
static void a_late_sleeper_takes_the_unit(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct waiter w = {.kind = &wait_sem, .on = &s};
	struct near__bucket *b = near__lot_lock(&s);

	w.thread = unit_start(run_waiter, &w);
	UNTIL(__atomic_load_n(&b->lock.word, __ATOMIC_RELAXED) >= 2 * NEAR__LOCK_ONE);
	assert_int_equal(near_sem_post(&s), 0);
	near__lot_unlock(b);
	expect(&w, 0);
	assert_int_equal(s.word, 0);
}

UNIT_MAIN(units_are_counted, old_sleepers_get_units_in_their_order,
	  a_running_thread_takes_a_young_sleepers_unit, units_are_reserved_at_intervals,
	  a_designated_waker_is_enough_for_one_unit,
	  a_sleeper_that_gives_up_takes_a_unit_that_is_there, a_child_forgets_designated_wakers,
	  a_late_sleeper_takes_the_unit)
