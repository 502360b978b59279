/* SPDX-License-Identifier: MIT */
/* near_barrier: a point where threads wait for each other.
 *
 * Cost:      the lock of a bucket for each wait; a futex call for each thread that sleeps; one that
 *            wakes all of these, and one more for each that waits with a token.
 * Memory:    8 bytes.
 * Safety:    any thread; not in signal handlers. Nothing here allocates or is a cancellation point;
 *            errno is left alone. Not between processes. A signal handler that interrupts a wait
 *            must return: after siglongjmp(3) the waiter, which is on the stack, stays in its
 *            queue.
 * Order:     a wait acquires what each thread of its group released by its own wait.
 * Fallback:  needs no rseq; the same code everywhere.
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

NEAR__BEGIN_DECLS

/* Private; guarded by the lock of a bucket of the parking lot. */
struct near_barrier {
	uint32_t threads, arrived;
};

/* `threads` of them form a group; at least 1. */
/* clang-format off */
#define NEAR_BARRIER_INIT(threads) { (threads), 0 }
/* clang-format on */

/* The same for memory that no initialiser reaches. Requires that no thread uses the barrier. */
NEAR_INLINE void near_barrier_init(struct near_barrier *b, uint32_t threads)
{
	b->threads = threads;
	b->arrived = 0;
}

/* Waits until as many threads have come as the barrier is for. Returns 1 in the last of them, 0 in
 * the others. */
NEAR_API int near_barrier_wait(struct near_barrier *b);

/* The same: 1 in the last thread, 0 in the others. Or ends without the group: -ETIMEDOUT when the
 * deadline (absolute; NULL: none) has passed by `clock` (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME);
 * -ECANCELED: `cancel` (NULL: none) is set; -EINTR: `clock` has NEAR_INTERRUPTIBLE (cancel.h), and
 * a signal handler ran; -EINVAL: unknown clock, or an invalid deadline. Such a thread is not
 * counted. The last thread of a group always returns 1. */
NEAR_API int near_barrier_wait_until(struct near_barrier *b, int clock,
				     const struct timespec *deadline, struct near_cancel *cancel);

NEAR__END_DECLS

#endif
