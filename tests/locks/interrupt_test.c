/* SPDX-License-Identifier: MIT */
/* Signal handlers end waits that are interruptible. */
#include "signals.h"
#include "waiters.h"

static struct near_mutex held, guard;
static struct near_rwlock written;
static struct near_cond silent;
static struct near_sem empty;
static struct near_once busy;
static struct near_barrier two = NEAR_BARRIER_INIT(2);

static const struct waiter waits[] = {
	{.kind = &wait_mutex, .on = &held},     {.kind = &wait_sem, .on = &empty},
	{.kind = &wait_reader, .on = &written}, {.kind = &wait_writer, .on = &written},
	{.kind = &wait_barrier, .on = &two},    {.kind = &wait_cond, .on = &silent, .m = &guard},
	{.kind = &wait_await, .on = &guard},    {.kind = &wait_once, .on = &busy},
	{.kind = &wait_park, .on = &two},
};

static bool has_ended; /* atomic */

static void *run_wait(void *waiter)
{
	run_waiter(waiter);
	__atomic_store_n(&has_ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Sends signals until it has ended, n at most; then cancels it, if it can be. */
static int signal_wait(struct waiter w, unsigned n)
{
	pthread_t t;

	has_ended = false;
	t = unit_start(run_wait, &w);
	for (unsigned i = 0; i < n && !__atomic_load_n(&has_ended, __ATOMIC_ACQUIRE); i++) {
		pthread_kill(t, SIGUSR1);
		usleep(1000);
	}
	if (w.cancel)
		near_cancel_set(w.cancel);
	unit_join(t);
	return w.result;
}

static void interrupt_wait(struct waiter w)
{
	w.clock = NEAR_INTERRUPTIBLE;
	catch_signals(0);
	CHECK(signal_wait(w, UINT32_MAX) == -EINTR);
	/* With a deadline a handler that restarts calls ends the wait, too. */
	catch_signals(SA_RESTART);
	for (size_t c = 0; c < LENGTH(wait_clocks); c++) {
		struct timespec far = wait_in_ms(wait_clocks[c], 1000000);

		w.clock = wait_clocks[c] | NEAR_INTERRUPTIBLE;
		w.deadline = &far;
		CHECK(signal_wait(w, UINT32_MAX) == -EINTR);
	}
}

/* A wait that is not interruptible continues. Without a deadline an interruptible one does, too,
 * after a handler that restarts calls. */
static void do_not_interrupt_wait(struct waiter w)
{
	for (int restarts = 0; restarts < 2; restarts++) {
		struct near_cancel cancel = NEAR_CANCEL_INIT;

		catch_signals(restarts ? SA_RESTART : 0);
		w.clock = restarts ? NEAR_INTERRUPTIBLE : CLOCK_MONOTONIC;
		w.cancel = &cancel;
		CHECK(signal_wait(w, 5) == -ECANCELED);
	}
}

static int test_waits(void *unused)
{
	for (size_t i = 0; i < LENGTH(waits); i++) {
		interrupt_wait(waits[i]);
		do_not_interrupt_wait(waits[i]);
	}
	return 0;
}

static void handlers_end_interruptible_waits(void **state)
{
	near_mutex_lock(&held);
	near_rwlock_write_lock(&written);
	CHECK(near_once_call(&busy, test_waits, NULL) == 0);
	near_rwlock_write_unlock(&written);
	near_mutex_unlock(&held);
	assert_int_equal(two.arrived, 0);
	assert_int_equal(near_sem_read(&empty), 0);
	assert_int_equal(waits_on(&empty, NEAR__SPACE_SEM), 0);
}

static void unknown_flags_are_no_clock(void **state)
{
	struct timespec t = {1, 0};

	assert_int_equal(near_sem_wait_until(&empty, NEAR_INTERRUPTIBLE << 1, &t, NULL), -EINVAL);
	assert_int_equal(near_sem_wait_until(&empty, NEAR_INTERRUPTIBLE | 77, &t, NULL), -EINVAL);
}

int main(void)
{
	end_hangs();
	return UNIT_TESTS(handlers_end_interruptible_waits, unknown_flags_are_no_clock);
}
