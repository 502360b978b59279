/* SPDX-License-Identifier: MIT */
/* near_thrsleep and near_thrwakeup: sleep and wake with the contract of OpenBSD's system calls.
 *
 * For runtimes that are written for these calls; new code is better served by park.h. Unlike all
 * else in this library they return positive errors, as OpenBSD's do.
 *
 * Cost:      that of park.h, whose table they share; an ident and an address that are equal are
 *            independent.
 * Memory:    none besides that table. No call allocates.
 * Safety:    any thread; not in signal handlers. errno is left alone. No cancellation points. A
 *            signal handler that interrupts a wait must return: after siglongjmp(3) the waiter,
 *            which is on the stack, stays in its queue.
 * Order:     a wake-up releases, and the sleep that it ends acquires.
 * Fallback:  needs no rseq; the same code everywhere.
 * Fairness:  first in, first out, for each ident.
 * Suspended: near_thrwakeup wakes the next sleeper in place of each that was not asleep, as OpenBSD
 *            does.
 * Fork:      no thread sleeps in the child.
 *
 * Concurrent with: everything with everything, but near_thr_attach with sleepers on -1.
 *
 *     near_thrsleep(&ready, CLOCK_MONOTONIC, NULL, &lock, NULL);     // releases the lock
 *     ...
 *     near_thrwakeup(&ready, 1);                                     // elsewhere
 *
 * Source: thrsleep(2) of OpenBSD, whose one queue became hashed buckets in 2024. near_thrsleep(3)
 * lists the differences.
 */
#ifndef NEARCPU_THRSLEEP_H
#define NEARCPU_THRSLEEP_H

#include <nearcpu/api.h>
#include <stdint.h>
#include <time.h>

NEAR__BEGIN_DECLS

#define NEAR_THR_UNLOCKED 0u

/* Sleeps on ident until near_thrwakeup, as OpenBSD's __thrsleep(2); its order of checks and its
 * results, which are positive errors. The deadline is on any clock that clock_gettime(2) knows, and
 * is converted into a duration at the call. `lock` (may be NULL) is set to NEAR_THR_UNLOCKED when
 * the thread is in the queue, `abort` (may be NULL) read after that.
 *
 *     0            woken
 *     EINVAL       ident is 0, the clock unknown, or the deadline invalid: lock was not released
 *     EWOULDBLOCK  the deadline passed; if it had before the call, `abort` was not read
 *     EINTR        *abort was not 0, or a signal handler ran
 *
 * near_thrsleep(3) lists the differences from OpenBSD. */
NEAR_API int near_thrsleep(const volatile void *ident, int clock, const struct timespec *deadline,
			   uint32_t *lock, const int *abort);

/* Wakes the first n threads that sleep on ident, all if n is not positive; and the next one for
 * each of them that was not asleep (it runs a signal handler, or was about to sleep). Returns 0;
 * EINVAL: ident is 0; ESRCH: no thread slept. Ident -1: wakes all threads that sleep on -1, in all
 * processes that are attached to the same region, and returns 0. */
NEAR_API int near_thrwakeup(const volatile void *ident, int n);

/* What the sleepers on ident -1 of several processes have in common: in memory that they share.
 * Zero is valid. */
struct near_thr_region {
	uint32_t wakeups;
};

#define NEAR_THR_REGION_INIT                                                                       \
	{                                                                                          \
		0                                                                                  \
	}

/* From now on ident -1 of this process is that of the region; NULL: the process is alone again.
 * Requires that no thread of this process sleeps on -1, and that the region stays mapped. */
NEAR_API void near_thr_attach(struct near_thr_region *region);

NEAR__END_DECLS

#endif
