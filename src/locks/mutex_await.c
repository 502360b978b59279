/* SPDX-License-Identifier: MIT */
/* near_mutex_await: waiting for a condition under a mutex; src/locks/mutex.h has the argument. */
#include "locks/mutex.h"
#include "locks/mutex_at.h"

/* This thread holds the mutex while it enters the queue, so that every later unlock finds it there.
 * A thread that found the condition true has woken it, but others may have had the mutex since. */
static int mutex_await(struct near_mutex *m, bool (*condition)(void *), void *arg,
		       const struct near__timeout *timeout, const void *site)
{
	struct near__waiter w = {
		.address = m,
		.space = NEAR__SPACE_MUTEX,
		.owner = near__owner_now(),
		.condition = condition,
		.arg = arg,
	};
	int r = 0;

	while (!condition(arg)) {
		struct near__bucket *b;

		if (r)
			return r;
		near__mutex_set_awaited(m);
		w.kind = AWAITER;
		w.check = NULL;
		w.true_since = 0;
		b = near__lot_lock(m);
		near__lot_append(b, &w);
		near__lot_unlock(b);
		near__mutex_release(m);
		near__lockdep_before_lock(m, site);
		r = near__lot_sleep(&w, timeout);
		if (r) {
			near__mutex_lock_at(m, site);
		} else {
			w.since = w.true_since ? w.true_since
					       : (uint64_t)near__now(CLOCK_MONOTONIC);
			near__mutex_lock_woken(m, &w);
			near__lockdep_locked(m, site);
		}
	}
	return 0;
}

static void mutex_check_held(const struct near_mutex *m)
{
	if (!near_mutex_is_mine(m))
		near__die("near_mutex_await: this thread does not hold the mutex");
}

int near_mutex_await_until(struct near_mutex *m, bool (*condition)(void *arg), void *arg, int clock,
			   const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	mutex_check_held(m);
	return r ? r : mutex_await(m, condition, arg, &timeout, NEAR__SITE);
}

void near_mutex_await(struct near_mutex *m, bool (*condition)(void *arg), void *arg)
{
	mutex_check_held(m);
	mutex_await(m, condition, arg, &NEAR__NO_TIMEOUT, NEAR__SITE);
}
