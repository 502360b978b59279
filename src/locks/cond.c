/* SPDX-License-Identifier: MIT */
/* near_cond: a queue in the parking lot. A signal takes the first waiter and wakes it; that
 * competes for the mutex like any thread. A broadcast moves all waiters to the queue of the mutex.
 *
 * A signal under the mutex wakes its waiter, too, although that must then wait for the unlock: its
 * way out of the kernel takes longer than most sections. If the unlock woke it, the mutex would be
 * unused in that time; and as there is one designated waker at a time, the waiters of many signals
 * would wake up one after the other. Throughput of a bounded queue relative to pthread_cond, with
 * signals that move the waiter to the mutex, and as it is: 4 producers and 4 consumers .38 and
 * 2.06, 16 and 16 .53 and 1.72, 1 and 1 .99 and .97; with the signal after the unlock .42 and 2.4,
 * 1.2 and 2.4, .99 and 1.0 (AMD EPYC, Zen 5 class, 2 CPUs).
 *
 * What can interleave, and what orders it:
 *
 * - A signal between a waiter's unlock and its sleep. The waiter enters the queue before it unlocks
 *   the mutex.
 * - A deadline that passes after the signal. The signal has taken the waiter, which finds that as
 *   it leaves the queue. Or a broadcast has moved it to the mutex's queue: the waiter leaves that
 *   queue under its bucket's lock, and finds by its space that it was signalled. In both cases it
 *   returns 0, and locks the mutex without a deadline.
 * - A signal whose waiter is suspended (lot.h). It ends the next wait, too: otherwise what it
 *   announces would be left to a thread that may not run for long.
 * - A broadcast while the mutex is free, so that no unlock would search its queue.
 *   near__mutex_admit then designates one of the moved waiters, which wakes immediately and whose
 *   unlock searches the queue for the others.
 * - An unlock or an admission takes a waiter, and so does another waiter of the same broadcast.
 *   Both take it under the lock of the mutex's bucket, so only one succeeds. PARKED may stay set
 *   without a waiter, which costs one unlock a search. If the thread that wakes others is slow,
 *   unlocks still take one after the other.
 * - The flag of the condition variable changes under the bucket's lock, so it is not cleared while
 *   a thread waits. A signal that loads it without the lock is ordered after the wait by the
 *   mutex. */
#include <nearcpu/cond.h>

#include <errno.h>

#include "locks/mutex.h"

/* How many others a thread wakes that a broadcast has woken, before it locks the mutex. If only
 * unlocks woke threads, one after the other, each wake-up would take the time that a CPU needs to
 * leave its idle state. Microseconds per broadcast to 32 pinned waiters with 0, 2, 4, 8, 64 (Intel
 * Xeon, Granite Rapids class, 2 CPUs): 464, 209, 200, 215, 234; pthread_cond 201. The number is
 * small, so that a thread soon has the mutex, and several CPUs share the work. */
#define EACH_WAKES 4

static struct near_mutex *mutex_of(const struct near__waiter *w)
{
	return w->arg;
}

static void cond_enter(struct near_cond *c, struct near__waiter *w)
{
	struct near__bucket *b = near__lot_lock(c);
	struct near__waiter *first = near__lot_first(b, c, NEAR__SPACE_COND);

	if (first && mutex_of(first) != mutex_of(w)) {
		near__lot_unlock(b);
		near__die("near_cond_wait: others wait with another mutex");
	}
	near__lot_append(b, w);
	__atomic_store_n(&c->waited_for, 1, __ATOMIC_RELAXED);
	near__lot_unlock(b);
}

/* Called by a waiter that a broadcast has moved to the mutex's queue, and that was woken. The
 * others then compete for the mutex like threads that were never in its queue. */
static void wake_others(const struct near_mutex *m)
{
	struct near__bucket *b = near__lot_lock(m);
	struct near__taken taken = {.first = NULL, .end = &taken.first};
	struct near__waiter *w = near__lot_first(b, m, NEAR__SPACE_MUTEX), *next;

	for (unsigned n = 0; w && n < EACH_WAKES; w = next) {
		next = near__lot_next(w);
		if (w->broadcast) {
			near__lot_take_into(&taken, b, w);
			n++;
		}
	}
	near__lot_unlock(b);
	near__lot_wake_all(taken.first);
}

/* Called by a waiter that a signal has woken: from now on it waits for the mutex. */
static void cond_compete(struct near__waiter *w, const struct near_mutex *m)
{
	w->address = m;
	w->space = NEAR__SPACE_MUTEX;
	w->since = (uint64_t)near__now(CLOCK_MONOTONIC);
}

static int cond_wait(struct near_cond *c, struct near_mutex *m, const struct near__timeout *timeout,
		     const void *site)
{
	struct near__waiter w = {
		.address = c,
		.space = NEAR__SPACE_COND,
		.kind = LOCKER,
		.arg = m,
	};
	int r;

	cond_enter(c, &w);
	near__mutex_release(m);
	near__lockdep_before_lock(m, site);
	r = near__lot_sleep(&w, timeout);
	if (!r) {
		if (w.broadcast)
			wake_others(m);
		w.broadcast = false; /* it may enter the queue again */
		if (w.space != NEAR__SPACE_MUTEX)
			cond_compete(&w, m);
		near__mutex_lock_woken(m, &w);
		near__lockdep_locked(m, site);
	} else {
		near__mutex_lock_at(m, site);
	}
	/* A waiter that has left the queue is not moved any more. */
	return w.space == NEAR__SPACE_MUTEX ? 0 : r;
}

static void cond_check_held(const struct near_mutex *m)
{
	if (!near_mutex_is_mine(m))
		near__die("near_cond_wait: this thread does not hold the mutex");
}

int near_cond_wait_until(struct near_cond *c, struct near_mutex *m, int clock,
			 const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	cond_check_held(m);
	return r ? r : cond_wait(c, m, &timeout, NEAR__SITE);
}

void near_cond_wait(struct near_cond *c, struct near_mutex *m)
{
	cond_check_held(m);
	cond_wait(c, m, &NEAR__NO_TIMEOUT, NEAR__SITE);
}

/* The mutex of the waiters; NULL: there are none. */
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

/* Moves the waiters, which wait with m. False: the first waits with another mutex by now. */
static bool cond_move_all(struct near_cond *c, struct near_mutex *m)
{
	uint64_t now = (uint64_t)near__now(CLOCK_MONOTONIC);
	struct near__bucket *locked[2];
	struct near__waiter *w, *next, *taken = NULL;
	bool right;

	near__lot_lock_both(c, m, locked);
	w = near__lot_first(locked[0], c, NEAR__SPACE_COND);
	right = !w || mutex_of(w) == m;
	if (w && right) {
		for (; w; w = next) {
			next = near__lot_next(w);
			w->since = now; /* it waits for the mutex from now on */
			w->broadcast = true;
			near__lot_move(locked[0], locked[1], w, m, NEAR__SPACE_MUTEX);
		}
		__atomic_store_n(&c->waited_for, 0, __ATOMIC_RELAXED);
		taken = near__mutex_admit(locked[1], m);
	}
	near__lot_unlock_both(locked);
	near__mutex_wake(m, taken);
	return right;
}

static void cond_broadcast(struct near_cond *c)
{
	struct near_mutex *m;

	do
		m = mutex_in_use(c);
	while (m && !cond_move_all(c, m));
}

/* When a waiter has been woken, the condition variable may be freed, unless another one waits. */
static void signal_first(struct near_cond *c)
{
	struct near__waiter *taken;
	bool again = false;

	do {
		struct near__bucket *b = near__lot_lock(c);

		taken = near__lot_take_some(b, c, NEAR__SPACE_COND, 1);
		if ((taken || !again) && !near__lot_first(b, c, NEAR__SPACE_COND))
			__atomic_store_n(&c->waited_for, 0, __ATOMIC_RELAXED);
		near__lot_unlock(b);
		again = true;
	} while (!near__lot_wake(taken));
}

void near__cond_wake(struct near_cond *c, bool all)
{
	if (all)
		cond_broadcast(c);
	else
		signal_first(c);
}
