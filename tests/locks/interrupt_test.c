/* SPDX-License-Identifier: MIT */
/* Signal handlers end waits that are interruptible. */
#include "interrupts.h"

#include <nearcpu/barrier.h>
#include <nearcpu/cond.h>
#include <nearcpu/once.h>
#include <nearcpu/rwlock.h>

static struct near_mutex held, guard;
static struct near_rwlock written;
static struct near_cond silent;
static struct near_sem empty;
static struct near_once busy;
static struct near_barrier two = NEAR_BARRIER_INIT(2);

struct wait {
	const struct timespec *deadline;
	struct near_cancel *cancel;
	int (*wait)(int clock, const struct timespec *deadline, struct near_cancel *cancel);
	int clock;
	int result;
	bool has_ended; /* atomic */
};

static int wait_mutex(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_mutex_lock_until(&held, clock, deadline, cancel);
}

static int wait_unit(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_sem_wait_until(&empty, clock, deadline, cancel);
}

static int wait_reader(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_rwlock_read_lock_until(&written, clock, deadline, cancel);
}

static int wait_writer(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_rwlock_write_lock_until(&written, clock, deadline, cancel);
}

static int wait_others(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_barrier_wait_until(&two, clock, deadline, cancel);
}

static int wait_signal(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	int r;

	near_mutex_lock(&guard);
	r = near_cond_wait_until(&silent, &guard, clock, deadline, cancel);
	near_mutex_unlock(&guard);
	return r;
}

static bool never(void *unused)
{
	return false;
}

static int wait_condition(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	int r;

	near_mutex_lock(&guard);
	r = near_mutex_await_until(&guard, never, NULL, clock, deadline, cancel);
	near_mutex_unlock(&guard);
	return r;
}

static int do_nothing(void *unused)
{
	return 0;
}

static int wait_once(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_once_call_until(&busy, do_nothing, NULL, clock, deadline, cancel);
}

static int wait_parked(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near_park p = {.clock = clock, .deadline = deadline, .cancel = cancel};

	return near_park(&two, &p);
}

static int (*const waits[])(int, const struct timespec *, struct near_cancel *) = {
	wait_mutex,  wait_unit,      wait_reader, wait_writer, wait_others,
	wait_signal, wait_condition, wait_once,   wait_parked,
};

static unsigned signals; /* atomic */

static void count_signal(int number)
{
	__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
}

static void *run_wait(void *arg)
{
	struct wait *w = arg;

	errno = UNIT_ERRNO;
	w->result = w->wait(w->clock, w->deadline, w->cancel);
	CHECK(errno == UNIT_ERRNO);
	__atomic_store_n(&w->has_ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Sends signals until it has ended, n at most. */
static void signal_wait(struct wait *w, unsigned n)
{
	pthread_t t = unit_start(run_wait, w);

	for (unsigned i = 0; i < n && !__atomic_load_n(&w->has_ended, __ATOMIC_ACQUIRE); i++) {
		pthread_kill(t, SIGUSR1);
		usleep(1000);
	}
	if (w->cancel)
		near_cancel_set(w->cancel);
	unit_join(t);
}

static int test_waits(void *unused)
{
	static const int clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};

	for (size_t i = 0; i < LENGTH(waits); i++) {
		struct near_cancel cancel = NEAR_CANCEL_INIT;
		struct wait w = {.wait = waits[i], .clock = NEAR_INTERRUPTIBLE};

		on_signal(SIGUSR1, count_signal, 0);
		signal_wait(&w, UINT32_MAX);
		CHECK(w.result == -EINTR);
		/* With a deadline a handler that restarts calls ends the wait, too. */
		for (size_t c = 0; c < LENGTH(clocks); c++) {
			struct timespec far = wait_in_ms(clocks[c], 1000000);
			struct wait timed = {.wait = waits[i],
					     .clock = clocks[c] | NEAR_INTERRUPTIBLE,
					     .deadline = &far};

			on_signal(SIGUSR1, count_signal, SA_RESTART);
			signal_wait(&timed, UINT32_MAX);
			CHECK(timed.result == -EINTR);
		}
		/* A wait that is not interruptible continues. Without a deadline an interruptible
		 * one does, too, after a handler that restarts calls. */
		for (int restarts = 0; restarts < 2; restarts++) {
			cancel = (struct near_cancel)NEAR_CANCEL_INIT;
			on_signal(SIGUSR1, count_signal, restarts ? SA_RESTART : 0);
			w = (struct wait){.wait = waits[i],
					  .clock = restarts ? NEAR_INTERRUPTIBLE : CLOCK_MONOTONIC,
					  .cancel = &cancel};
			signal_wait(&w, 5);
			CHECK(w.result == -ECANCELED);
		}
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
