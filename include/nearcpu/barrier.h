/* SPDX-License-Identifier: MIT */
/* near_barrier: a point where threads wait for each other.
 *
 * Cost:      the lock of a bucket for each wait; a futex call for who sleeps, and for who is woken.
 * Memory:    8 bytes.
 * Safety:    any thread; not in signal handlers. Nothing here allocates or is a cancellation point;
 *            errno is left alone.
 * Order:     what was done before a wait is seen after it by all who met.
 * Freeing:   as soon as one of the waits that met has returned, if no more are to come.
 * Fork:      in the child nobody waits; who had arrived in the parent is still counted.
 *
 * Concurrent with:   wait  init
 *            wait     yes   no
 *
 *     static struct near_barrier meet = NEAR_BARRIER_INIT(4);
 *
 *     if (near_barrier_wait(&meet))
 *             ...             // in one of the four
 *
 * Source: pthread_barrier_wait; differs in that a wait can be given up: who leaves is not counted.
 */
#ifndef NEARCPU_BARRIER_H
#define NEARCPU_BARRIER_H

#include <nearcpu/cancel.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Private; guarded by the lock of a bucket of the parking lot. */
struct near_barrier {
	uint32_t threads, arrived;
};

/* For so many threads, at least 1. */
/* clang-format off */
#define NEAR_BARRIER_INIT(threads) { (threads), 0 }
/* clang-format on */

/* Waits until as many threads have come as the barrier is for. True in the last of them. */
NEAR_API bool near_barrier_wait(struct near_barrier *b);

/* The same: 1 in the last thread, 0 in the others. Or leaves: -ETIMEDOUT when the deadline
 * (absolute; NULL: none) has passed by `clock` (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME),
 * -ECANCELED when `cancel` (NULL: none) is set. Who comes last does not leave. -EINVAL: unknown
 * clock, or a deadline that is no time; not counted. */
NEAR_API int near_barrier_wait_until(struct near_barrier *b, int clock,
				     const struct timespec *deadline, struct near_cancel *cancel);

#ifdef __cplusplus
}
#endif

#endif
