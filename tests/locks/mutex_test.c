/* SPDX-License-Identifier: MIT */
/* near_mutex: its steps one by one, with waiters that the test plays itself; waits and what ends
 * them; near_mutex_await. The program is linked with --wrap=clock_gettime. */
#include "played_waiters.h"

#include "clock.h"

/* CLOCK_MONOTONIC always shows this, unless it is 0. */
static long frozen_ms;

static int64_t clock_of_test(clockid_t clock)
{
	long ms = __atomic_load_n(&frozen_ms, __ATOMIC_RELAXED);

	return ms && clock == CLOCK_MONOTONIC ? 1000 * INT64_C(1000000000) + ms * MS : REAL_CLOCK;
}

static void freeze_at(long ms)
{
	__atomic_store_n(&frozen_ms, ms, __ATOMIC_RELAXED);
}

/* ---- states ---- */

static struct near_mutex early;
static bool early_was_mine, early_is_free;

/* Runs before any constructor without a priority of its own, those of the library included. */
__attribute__((constructor(101))) static void use_before_constructors(void)
{
	near_mutex_lock(&early);
	early_was_mine = near_mutex_is_mine(&early) && !near_mutex_try_lock(&early);
	near_mutex_unlock(&early);
	early_is_free = near_mutex_try_lock(&early);
	near_mutex_unlock(&early);
}

static void zero_is_a_free_mutex(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;

	assert_int_equal(sizeof(struct near_mutex), 4);
	assert_true(early_was_mine && early_is_free);
	assert_int_equal(word_of(&m), 0);
	near_mutex_lock(&m);
	assert_int_equal(word_of(&m), me());
	assert_true(near_mutex_is_mine(&m));
	assert_false(near_mutex_try_lock(&m));
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
	assert_false(near_mutex_is_mine(&m));
	assert_true(near_mutex_try_lock(&m));
	near_mutex_unlock_fair(&m);
	assert_int_equal(word_of(&m), 0);
	near_mutex_destroy(&m);
}

static void *lock_in_new_thread(void *arg)
{
	struct near_mutex *m = arg;

	/* A thread's first call, whichever it is, sets its owner number. */
	CHECK(!near_mutex_is_mine(m));
	CHECK(near_mutex_try_lock(m));
	CHECK(near_mutex_is_mine(m));
	near_mutex_unlock(m);
	return NULL;
}

static void threads_are_different_owners(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;

	unit_join(unit_start(lock_in_new_thread, &m));
	assert_int_equal(word_of(&m), 0);
}

/* ---- steps: the test plays the waiters ---- */

static void an_unlock_wakes_the_first_if_young(void **state)
{
	struct near_mutex m = {me() | PARKED};
	struct near__waiter w[2];

	freeze_at(500);
	play(&m, &w[0], 0);
	play(&m, &w[1], 0);
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), PARKED | WAKING);
	assert_true(was_woken(&w[0]));
	/* Until it runs no other waiter is woken, and the bits stay as they are. */
	near_mutex_lock(&m);
	assert_int_equal(word_of(&m), me() | PARKED | WAKING);
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), PARKED | WAKING);
	assert_true(near_mutex_try_lock(&m));
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), PARKED | WAKING);
	assert_true(w[1].queued);
	/* The last one leaves no PARKED behind. */
	m.word = me() | PARKED;
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), WAKING);
	assert_true(was_woken(&w[1]));
}

static void an_unlock_reserves_for_the_first_if_old(void **state)
{
	struct near_mutex m = {me() | PARKED};
	struct near__waiter w[2];

	freeze_at(500);
	play(&m, &w[0], 3 * MS / 2);
	play(&m, &w[1], 0);
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), PARKED | WAKING | RESERVED);
	assert_true(was_woken(&w[0]));
	m.word = me() | PARKED;
	near_mutex_unlock(&m);
	assert_true(was_woken(&w[1]));
}

static void the_age_that_counts_is_a_millisecond(void **state)
{
	struct near_mutex m = {me() | PARKED};
	struct near__waiter w;

	freeze_at(500);
	play(&m, &w, 0);
	freeze_at(501);
	near_mutex_unlock(&m);
	assert_true(was_woken(&w));
	m.word = me() | PARKED;
	play(&m, &w, 0);
	freeze_at(503);
	near_mutex_unlock(&m);
	assert_true(has_reservation(&m, &w));
}

static void a_reservation_keeps_off_the_next(void **state)
{
	struct near_mutex m = {me() | PARKED};
	struct near__waiter w[4];

	freeze_at(500);
	for (unsigned i = 0; i < 4; i++)
		play(&m, &w[i], 3 * MS);
	near_mutex_unlock(&m);
	assert_true(has_reservation(&m, &w[0]));
	m.word = me() | PARKED;
	near_mutex_unlock(&m);
	assert_true(was_woken(&w[1]));
	assert_false(word_of(&m) & RESERVED);
	m.word = me() | PARKED;
	near_mutex_unlock_fair(&m);
	assert_true(has_reservation(&m, &w[2]));
	freeze_at(501);
	m.word = me() | PARKED;
	near_mutex_unlock(&m);
	assert_true(has_reservation(&m, &w[3]));
}

static void a_fair_unlock_reserves_immediately(void **state)
{
	struct near_mutex m = {me() | PARKED | WAKING};
	struct near__waiter w;

	play(&m, &w, 0);
	near_mutex_unlock_fair(&m);
	assert_true(has_reservation(&m, &w));
	m.word = me() | PARKED; /* no waiter is left */
	near_mutex_unlock_fair(&m);
	assert_int_equal(word_of(&m), 0);
}

/* As does one that waits until its deadline, and any lock in the end. */
static void a_try_takes_a_reserved_mutex(void **state)
{
	struct near_mutex m = {WAKING | RESERVED};
	struct timespec now = {0, 0};

	assert_true(near_mutex_try_lock(&m));
	assert_int_equal(word_of(&m), me() | WAKING);
	m.word = WAKING | RESERVED;
	assert_int_equal(near_mutex_lock_until(&m, CLOCK_MONOTONIC, &now, NULL), 0);
	assert_int_equal(word_of(&m) & ~PARKED, me() | WAKING);
	m.word = WAKING | RESERVED;
	near_mutex_lock(&m);
	assert_int_equal(owner_of(word_of(&m)), me());
	assert_false(word_of(&m) & RESERVED);
	near_mutex_unlock(&m);
}

static void an_unlock_clears_bits_without_waiters(void **state)
{
	struct near_mutex m = {me() | PARKED | AWAITED};

	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
	m.word = me() | PARKED | AWAITED | WAKING;
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), WAKING);
}

/* A designated waker that finds the mutex taken enters the queue again. */
static void a_waiter_that_returns_is_queued_by_age(void **state)
{
	static const long ages[] = {9, 3, 6, 1, 12};
	static const unsigned order[] = {4, 0, 2, 1, 3};
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct near__waiter w[LENGTH(ages)], *at;
	struct near__bucket *b = near__lot_lock(&m);

	for (size_t i = 0; i < LENGTH(ages); i++) {
		w[i] = (struct near__waiter){.address = &m,
					     .space = NEAR__SPACE_MUTEX,
					     .since = 1000 - (uint64_t)ages[i]};
		near__lot_insert(b, &w[i]);
	}
	at = near__lot_first(b, &m, NEAR__SPACE_MUTEX);
	for (size_t i = 0; i < LENGTH(order); i++) {
		struct near__waiter *next = near__lot_next(at);

		assert_ptr_equal(at, &w[order[i]]);
		near__lot_take(b, at);
		at = next;
	}
	assert_null(at);
	near__lot_unlock(b);
}

/* ---- waits ---- */

static void every_waiter_gets_it(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[12];
	unsigned order = 0;

	for (unsigned round = 0; round < 10; round++) {
		near_mutex_lock(&m);
		start_lockers(w, 12, &m, &order);
		assert_int_equal(order, round * 12);
		if (round % 2)
			near_mutex_unlock(&m);
		else
			near_mutex_unlock_fair(&m);
		for (unsigned i = 0; i < 12; i++)
			expect(&w[i], 0);
		assert_int_equal(order, (round + 1) * 12);
		assert_int_equal(word_of(&m), 0);
	}
}

static bool old_waiters_get_it_in_order(void)
{
	struct timespec far = wait_in_ms(CLOCK_REALTIME, 1000000);
	struct near_mutex m = NEAR_MUTEX_INIT;
	unsigned order = 0;
	struct waiter w[6], like = {.kind = &wait_mutex, .on = &m, .order = &order};
	bool in_order = true;

	like.clock = CLOCK_REALTIME;
	like.deadline = &far;
	near_mutex_lock(&m);
	start_waiters(w, 6, like);
	usleep(3000);
	near_mutex_unlock(&m);
	for (unsigned i = 0; i < 6; i++) {
		expect(&w[i], 0);
		in_order &= w[i].turn == i + 1;
	}
	return in_order;
}

/* All are old: the mutex is reserved for one after the other. Unless one is in the queue and not
 * yet asleep: then the next one is woken, too. */
static void old_waiters_get_it_in_their_order(void **state)
{
	bool passed = false;

	for (unsigned i = 0; i < 100 && !passed; i++)
		passed = old_waiters_get_it_in_order();
	assert_true(passed);
}

static void a_token_ends_waits(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[3];
	unsigned order = 0;

	near_mutex_lock(&m);
	for (unsigned i = 0; i < 3; i++)
		start_waiters(&w[i], 1,
			      (struct waiter){.kind = &wait_mutex,
					      .on = &m,
					      .cancel = i == 1 ? NULL : &token,
					      .order = &order});
	near_cancel_set(&token);
	expect(&w[0], -ECANCELED);
	expect(&w[2], -ECANCELED);
	assert_int_equal(waiters_of(&m), 1);
	near_mutex_unlock(&m);
	expect(&w[1], 0);
	assert_int_equal(w[1].turn, 1);
	assert_int_equal(word_of(&m), 0);
}

static unsigned checks;

static bool count_check(void *flag)
{
	checks++;
	return is_set(flag);
}

static void await_checks_its_condition_first(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	bool yes = true;

	near_mutex_lock(&m);
	checks = 0;
	near_mutex_await(&m, count_check, &yes);
	assert_int_equal(checks, 1);
	assert_int_equal(word_of(&m), me());
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
}

static int thaw(void **state)
{
	freeze_at(0);
	return 0;
}

int main(void)
{
	set_unlock_budget(1);
	return UNIT_GROUP(NULL, thaw, NULL, zero_is_a_free_mutex, threads_are_different_owners,
			  an_unlock_wakes_the_first_if_young,
			  an_unlock_reserves_for_the_first_if_old,
			  the_age_that_counts_is_a_millisecond, a_reservation_keeps_off_the_next,
			  a_fair_unlock_reserves_immediately, a_try_takes_a_reserved_mutex,
			  an_unlock_clears_bits_without_waiters,
			  a_waiter_that_returns_is_queued_by_age, every_waiter_gets_it,
			  old_waiters_get_it_in_their_order, a_token_ends_waits,
			  await_checks_its_condition_first);
}
