/* SPDX-License-Identifier: MIT */
/* near_cond: which waiters are woken. */
#include "waiters.h"

static struct near_cond c;
static struct near_mutex m;
static unsigned order;

static struct waiter waiter(void)
{
	return (struct waiter){.kind = &wait_cond, .on = &c, .m = &m, .order = &order};
}

static int begin(void **state)
{
	memset(&c, 0, sizeof(c));
	memset(&m, 0, sizeof(m));
	order = 0;
	return 0;
}

static unsigned locking(void)
{
	return waits_on(&m, NEAR__SPACE_MUTEX);
}

static void a_signal_ends_the_first_wait(void **state)
{
	struct waiter w[3];

	near_cond_signal(&c);
	near_cond_broadcast(&c);
	start_waiters(w, 3, waiter());
	for (unsigned i = 0; i < 3; i++) {
		unsigned before = waits_of(&w[i]);

		assert_int_equal(c.waited_for, before > 0);
		if (i % 2) {
			near_mutex_lock(&m);
			near_cond_signal(&c);
			near_mutex_unlock(&m);
		} else {
			near_cond_signal(&c);
		}
		expect(&w[i], 0);
		/* Or more: the next one, if it was not asleep yet. */
		assert_true(!before || waits_of(&w[i]) < before);
	}
	assert_int_equal(order, 3);
	assert_int_equal(c.waited_for, 0);
	assert_int_equal(m.word & NEAR__MUTEX_OWNER, 0);
}

/* It wakes up, and waits for the mutex. */
static void a_signal_under_the_mutex_wakes(void **state)
{
	struct waiter w = waiter();

	start_waiter(&w);
	near_mutex_lock(&m);
	near_cond_signal(&c);
	UNTIL(locking() == 1);
	near_mutex_unlock(&m);
	expect(&w, 0);
}

/* Under the mutex, for as many waiters. */
static void many_signals_end_as_many_waits(void **state)
{
	struct waiter w[32];

	for (unsigned round = 0; round < 4; round++) {
		start_waiters(w, 32, waiter());
		near_mutex_lock(&m);
		for (unsigned i = 0; i < 32; i++)
			near_cond_signal(&c);
		assert_int_equal(waits_of(&w[0]), 0);
		near_mutex_unlock(&m);
		for (unsigned i = 0; i < 32; i++)
			expect(&w[i], 0);
		assert_int_equal(order, 32 * (round + 1));
		assert_int_equal(c.waited_for, 0);
	}
}

/* True: the mutex was free after the unlock, and the waiter had not had it: nobody gave it. */
static bool signal_and_pass(void)
{
	struct waiter w = waiter();
	bool passed = false;

	order = 0;
	start_waiter(&w);
	near_mutex_lock(&m);
	near_cond_signal(&c);
	near_mutex_unlock(&m);
	if (near_mutex_try_lock(&m)) {
		passed = order == 0;
		near_mutex_unlock(&m);
	}
	expect(&w, 0);
	return passed;
}

/* A waiter's age begins with the signal: it is not handed the mutex because it waited for the
 * signal. Unless this thread was away for a millisecond. */
static void a_signalled_waiter_is_young(void **state)
{
	bool passed = false;

	for (unsigned i = 0; i < 1000 && !passed; i++)
		passed = signal_and_pass();
	assert_true(passed);
}

static void a_broadcast_ends_all(void **state)
{
	struct waiter w[8];

	for (unsigned round = 0; round < 6; round++) {
		start_waiters(w, 8, waiter());
		if (round % 2)
			near_mutex_lock(&m);
		near_cond_broadcast(&c);
		if (round % 2) {
			assert_int_equal(locking(), 8);
			near_mutex_unlock(&m);
		}
		for (unsigned i = 0; i < 8; i++)
			expect(&w[i], 0);
		assert_int_equal(order, 8 * (round + 1));
		assert_int_equal(c.waited_for, 0);
		assert_int_equal(m.word & NEAR__MUTEX_OWNER, 0);
		assert_int_equal(locking(), 0);
	}
}

/* In the mutex's queue: those that no thread has woken since the broadcast. */
static unsigned unwoken(void)
{
	struct near__bucket *b = near__lot_lock(&m);
	struct near__waiter *w = near__lot_first(b, &m, NEAR__SPACE_MUTEX);
	unsigned n = 0;

	for (; w; w = near__lot_next(w))
		n += w->broadcast;
	near__lot_unlock(b);
	return n;
}

/* Those that a broadcast has moved have the mutex as their argument. */
static const struct near__waiter *last_in_queue(void)
{
	struct near__bucket *b = near__lot_lock(&m);
	struct near__waiter *w = near__lot_first(b, &m, NEAR__SPACE_MUTEX), *last = w;

	for (; w; w = near__lot_next(w))
		last = w;
	near__lot_unlock(b);
	return last;
}

/* While the mutex is held, so that each enters the queue again, in front of a younger thread. */
static void one_that_is_woken_wakes_others(void **state)
{
	struct waiter w[8], young = {.kind = &wait_mutex, .on = &m};
	struct near__bucket *b;
	struct near__waiter *first;

	start_waiters(w, 8, waiter());
	near_mutex_lock(&m);
	near_cond_broadcast(&c);
	assert_int_equal(unwoken(), 8);
	start_waiter(&young);
	b = near__lot_lock(&m);
	first = near__lot_first(b, &m, NEAR__SPACE_MUTEX);
	near__lot_take(b, first);
	near__lot_unlock(b);
	near__lot_wake(first);
	UNTIL(locking() == 9 && unwoken() == 0);
	assert_null(last_in_queue()->arg);
	near_mutex_unlock(&m);
	for (unsigned i = 0; i < 8; i++)
		expect(&w[i], 0);
	expect(&young, 0);
	assert_int_equal(locking(), 0);
}

/* A waiter that was signalled returns 0, whatever else happens before it has the mutex. */
static void a_signal_comes_before_a_later_deadline(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct waiter w = waiter();

	w.cancel = &token;
	start_waiter(&w);
	near_mutex_lock(&m);
	near_cond_signal(&c);
	assert_int_equal(waits_of(&w), 0);
	near_cancel_set(&token);
	usleep(2000);
	near_mutex_unlock(&m);
	expect(&w, 0);
	assert_int_equal(m.word & NEAR__MUTEX_OWNER, 0);
}

static void misuse_stops_with_one_line(void **state)
{
	struct near_mutex second = NEAR_MUTEX_INIT;
	struct waiter w = waiter();

	DIES("near_cond_wait: this thread does not hold the mutex")
		near_cond_wait(&c, &m);
	DIES("near_cond_wait: others wait with another mutex") {
		start_waiter(&w);
		near_mutex_lock(&second);
		near_cond_wait(&c, &second);
	}
}

UNIT_MAIN_EACH(begin, NULL, a_signal_ends_the_first_wait, a_signal_under_the_mutex_wakes,
	       many_signals_end_as_many_waits, a_signalled_waiter_is_young, a_broadcast_ends_all,
	       one_that_is_woken_wakes_others, a_signal_comes_before_a_later_deadline,
	       misuse_stops_with_one_line)
