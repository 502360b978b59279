/* SPDX-License-Identifier: MIT */
/* near_barrier: a point where threads wait for each other.
 *
 * Cost:      the lock of a bucket for each wait; a futex call for each thread that sleeps; one that
 *            wakes all of these, and one more for each that waits with a token.
 * Memory:    8 bytes.
 * Safety:    any thread; not in signal handlers. Nothing here allocates or is a cancellation point;
 *            errno is left alone.
 * Order:     a wait acquires what each thread of its group released by its own wait.
 * Freeing:   as soon as one wait of the group has returned, if no further wait begins.
 * Fork:      no thread waits in the child; threads that had arrived in the parent are still
 *            counted.
 *
 * Concurrent with:   wait  init
 *            wait     yes   no
 *
 *     static struct near_barrier start = NEAR_BARRIER_INIT(4);
 *
 *     if (near_barrier_wait(&start))
 *             ...             // in one of the four
 *
 * Source: pthread_barrier_wait; differs in that a wait can end by a deadline or a token; such a
 * thread is not counted.
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

/* `n` threads form a group; at least 1. */
/* clang-format off */
#define NEAR_BARRIER_INIT(threads) { (threads), 0 }
/* clang-format on */

/* The same for memory that no initialiser reaches. Requires that no thread uses the barrier. */
NEAR_INLINE void near_barrier_init(struct near_barrier *b, uint32_t threads)
{
	b->threads = threads;
	b->arrived = 0;
}

/* Waits until as many threads have come as the barrier is for. True in the last of them. */
NEAR_API bool near_barrier_wait(struct near_barrier *b);

/* The same: 1 in the last thread, 0 in the others. Or ends without the group: -ETIMEDOUT when the
 * deadline (absolute; NULL: none) has passed by `clock` (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME),
 * -ECANCELED when `cancel` (NULL: none) is set. The last thread of a group always returns 1.
 * -EINVAL: unknown clock, or a deadline that is no time; not counted. */
NEAR_API int near_barrier_wait_until(struct near_barrier *b, int clock,
				     const struct timespec *deadline, struct near_cancel *cancel);

#ifdef __cplusplus
}
#endif

#endif
