/* SPDX-License-Identifier: MIT */
/* near_cond: a condition variable for near_mutex.
 *
 * Cost:      signal and broadcast without waiters: one load. A signal with waiters: the lock of a
 *            bucket, and a system call that wakes the first one, even if the mutex is held: its
 *            way out of the kernel takes longer than most sections. A broadcast moves the waiters
 *            to the mutex, whose unlocks wake them; a thread that wakes up after it wakes up to
 *            four others.
 * Memory:    4 bytes. Zero is valid. There is nothing to destroy.
 * Safety:    any thread; not in signal handlers. Nothing here allocates or is a cancellation point;
 *            errno is left alone. Not between processes. A signal handler that interrupts a wait
 *            must return: after siglongjmp(3) the waiter, which is on the stack, stays in its
 *            queue.
 * Order:     that of the mutex.
 * Fallback:  needs no rseq; the same code everywhere.
 * Fairness:  first in, first out. A signal goes to a thread that waited when it was sent, never to
 *            a later one. A thread that received a signal returns 0, even if its deadline passes
 *            before it has locked the mutex again. So no signal is lost or stolen.
 * Suspended: a signal whose first waiter is not asleep (it is about to sleep; or a signal handler,
 *            a debugger or a collector suspends it) ends the wait of the next one, too: so a
 *            suspended thread keeps no signal from the others.
 * Misuse:    waiting without holding the mutex, or waiting on one condition variable with two
 *            mutexes, stops the program with one line on standard error.
 * Fork:      no thread waits in the child.
 * Freeing:   when every wait, signal and broadcast has returned.
 *
 * Wait in a loop: there are no wake-ups without a signal, but one may end two waits, and between
 * the signal and the return others may take the mutex and change what was signalled.
 * near_mutex_await needs no signals.
 *
 * Concurrent with: everything with everything.
 *
 *     near_mutex_lock(&m);
 *     while (!jobs)
 *             near_cond_wait(&more, &m);
 *     jobs--;
 *     near_mutex_unlock(&m);
 *
 * Source: Mesa's monitors (1980); the requeue of Linux's futexes.
 */
#ifndef NEARCPU_COND_H
#define NEARCPU_COND_H

#include <nearcpu/mutex.h>

NEAR__BEGIN_DECLS

/* Private: not 0 if a thread may wait. */
struct near_cond {
	uint32_t waited_for;
};

/* clang-format off */
#define NEAR_COND_INIT { 0 }
/* clang-format on */

/* Unlocks the mutex, waits for a signal, and locks the mutex again. */
NEAR_API void near_cond_wait(struct near_cond *c, struct near_mutex *m) NEAR__REQUIRES(m);

/* The same: 0. Or gives up: -ETIMEDOUT when the deadline (absolute; NULL: none) has passed by
 * `clock` (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME); -ECANCELED: `cancel` (NULL: none) is set;
 * -EINTR: `clock` has NEAR_INTERRUPTIBLE (cancel.h), and a signal handler ran; -EINVAL: unknown
 * clock, or an invalid deadline: the mutex was not unlocked. The mutex is held in any case when it
 * returns, so that it may return late. */
NEAR_API int near_cond_wait_until(struct near_cond *c, struct near_mutex *m, int clock,
				  const struct timespec *deadline, struct near_cancel *cancel)
	NEAR__REQUIRES(m);

NEAR_API void near__cond_wake(struct near_cond *c, bool all);

/* Relaxed: a waiter set it while it held the mutex, so a thread that has locked the mutex since
 * reads that value. */
NEAR__INLINE bool near__cond_is_waited_for(const struct near_cond *c)
{
	return __atomic_load_n(&c->waited_for, __ATOMIC_RELAXED);
}

/* Ends the first wait. The caller has held the mutex since it changed what is waited for, or holds
 * it. */
NEAR_INLINE void near_cond_signal(struct near_cond *c)
{
	if (near__cond_is_waited_for(c))
		near__cond_wake(c, false);
}

/* Ends all waits. */
NEAR_INLINE void near_cond_broadcast(struct near_cond *c)
{
	if (near__cond_is_waited_for(c))
		near__cond_wake(c, true);
}

NEAR__END_DECLS

#endif
