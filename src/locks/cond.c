/* SPDX-License-Identifier: MIT */
/* near_cond: a queue in the lot, whose waiters are moved to the mutex's.
 *
 * Who can be where, and what stops each:
 *
 * - A signal between a waiter's unlock and its sleep. The waiter is in the queue before it lets go
 *   of the mutex.
 * - A deadline that passes after the signal. The signal has moved the waiter: it is in the mutex's
 *   queue then, which it leaves under that bucket's lock, and sees by its address that it was
 *   signalled. So it returns 0, and takes the mutex without a limit.
 * - A mutex that is free when the signal comes, so that no unlock would look at its queue.
 *   near__mutex_admit then chooses one of the moved, which is on its way at once; and its unlock
 *   looks for the others.
 * - The flag of the condition variable. It is set, and cleared, under the bucket's lock, so it is
 *   not cleared while somebody waits. A signal that reads it without the lock is ordered behind the
 *   wait by the mutex. */
#include <nearcpu/cond.h>

#include <errno.h>

#include "mutex.h"

static struct near_mutex *mutex_of(const struct near__waiter *w)
{
	return w->arg;
}

static void enter(struct near_cond *c, struct near__waiter *w)
{
	struct near__bucket *b = near__lot_lock(c);
	struct near__waiter *first = near__lot_first(b, c, NEAR__SPACE_COND);

	if (first && mutex_of(first) != mutex_of(w))
		near__die("near_cond_wait: others wait with another mutex");
	near__lot_append(b, w);
	__atomic_store_n(&c->waited_for, 1, __ATOMIC_RELAXED);
	near__lot_unlock(b);
}

static int wait(struct near_cond *c, struct near_mutex *m, const struct near__limit *l,
		const void *site)
{
	struct near__waiter w = {
		.address = c,
		.space = NEAR__SPACE_COND,
		.kind = LOCKER,
		.owner = near__owner_now(),
		.arg = m,
	};
	int r;

	enter(c, &w);
	near__mutex_let_go(m);
	near__order_before_lock(m, site);
	r = near__lot_sleep(&w, l);
	if (!r) {
		near__mutex_lock_woken(m, &w);
		near__order_locked(m, site);
	} else {
		near__mutex_lock_at(m, site);
	}
	/* Nobody moves who has left the queue. */
	return w.space == NEAR__SPACE_MUTEX ? 0 : r;
}

static void check_mine(const struct near_mutex *m)
{
	if (!near_mutex_is_mine(m))
		near__die("near_cond_wait: this thread does not hold the mutex");
}

int near_cond_wait_until(struct near_cond *c, struct near_mutex *m, int clock,
			 const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__limit l;
	int r = near__limit_set(&l, clock, deadline, cancel);

	check_mine(m);
	return r ? r : wait(c, m, &l, NEAR__SITE);
}

void near_cond_wait(struct near_cond *c, struct near_mutex *m)
{
	check_mine(m);
	wait(c, m, &NEAR__NO_LIMIT, NEAR__SITE);
}

/* The mutex of those who wait; NULL: nobody does. */
static struct near_mutex *mutex_in_use(struct near_cond *c)
{
	struct near__bucket *b = near__lot_lock(c);
	struct near__waiter *w = near__lot_first(b, c, NEAR__SPACE_COND);
	struct near_mutex *m = w ? mutex_of(w) : NULL;

	if (!w)
		__atomic_store_n(&c->waited_for, 0, __ATOMIC_RELAXED);
	near__lot_unlock(b);
	return m;
}

/* Under both locks. */
static void move(struct near__bucket *locked[2], struct near__waiter *w, uint64_t now)
{
	w->since = now; /* it waits for the mutex from now on */
	near__lot_move(locked[0], locked[1], w, mutex_of(w), NEAR__SPACE_MUTEX);
}

/* Moves one or all of those who wait with m. False: the first waits with another one by now. */
static bool wake_with(struct near_cond *c, struct near_mutex *m, bool all)
{
	uint64_t now = (uint64_t)near__now(CLOCK_MONOTONIC);
	struct near__bucket *locked[2];
	struct near__waiter *w, *taken = NULL;
	bool right;

	near__lot_lock_both(c, m, locked);
	w = near__lot_first(locked[0], c, NEAR__SPACE_COND);
	right = !w || mutex_of(w) == m;
	if (w && right) {
		do {
			struct near__waiter *next = near__lot_next(w);

			move(locked, w, now);
			w = next;
		} while (w && all);
		if (!w)
			__atomic_store_n(&c->waited_for, 0, __ATOMIC_RELAXED);
		taken = near__mutex_admit(locked[1], m);
	}
	near__lot_unlock_both(locked);
	if (taken)
		near__lot_wake(taken);
	return right;
}

void near__cond_wake(struct near_cond *c, bool all)
{
	struct near_mutex *m;

	do
		m = mutex_in_use(c);
	while (m && !wake_with(c, m, all));
}
