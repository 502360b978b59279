/* SPDX-License-Identifier: MIT */
/* near_barrier: a count of the threads that have arrived, which the lock of the barrier's bucket
 * guards, and a queue there. The last thread to arrive resets the count, then empties the queue, in
 * one section, so that the next round can begin. */
#include <nearcpu/barrier.h>

#include "parking/lot.h"

/* Under the lock. */
static void barrier_leave(struct near__waiter *w, bool others)
{
	struct near_barrier *barrier = w->arg;

	(void)others;
	barrier->arrived--;
}

/* Under the lock, by the last thread: begins the next round. A waiter whose wait ends may free the
 * barrier, so taking the first one is the last access. */
static struct near__group end_round(struct near__bucket *b, struct near_barrier *barrier)
{
	barrier->arrived = 0;
	NEAR__TSAN_ACQUIRE(barrier);
	return near__lot_take_group(b, barrier, NEAR__SPACE_BARRIER);
}

static int barrier_wait(struct near_barrier *barrier, const struct near__timeout *timeout)
{
	struct near__waiter w = {.address = barrier,
				 .space = NEAR__SPACE_BARRIER,
				 .left = barrier_leave,
				 .arg = barrier};
	struct near__bucket *b = near__lot_lock(barrier);
	struct near__group taken = {NULL, false};
	bool last = barrier->arrived + 1 >= barrier->threads;

	w.group = timeout->cancel ? NULL : &b->group;
	NEAR__TSAN_RELEASE(barrier);
	if (last) {
		taken = end_round(b, barrier);
	} else {
		near__lot_append(b, &w);
		barrier->arrived++;
	}
	near__lot_unlock(b);
	if (!last)
		return near__lot_sleep(&w, timeout);
	near__lot_wake_group(b, &taken);
	return 1;
}

int near_barrier_wait(struct near_barrier *b)
{
	return barrier_wait(b, &NEAR__NO_TIMEOUT);
}

int near_barrier_wait_until(struct near_barrier *b, int clock, const struct timespec *deadline,
			    struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	return r ? r : barrier_wait(b, &timeout);
}
