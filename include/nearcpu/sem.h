/* SPDX-License-Identifier: MIT */
/* near_sem: a counting semaphore.
 *
 * Cost:      post and wait without sleepers: one atomic instruction each.
 * Memory:    4 bytes. Zero is a semaphore of 0 units. There is nothing to destroy.
 * Safety:    any thread. post, try_wait and read: signal handlers too, whatever they interrupt.
 *            Nothing here allocates or is a cancellation point; errno is left alone. Not between
 *            processes. A signal handler that interrupts a wait must return: after siglongjmp(3)
 *            the waiter, which is on the stack, stays in its queue.
 * Order:     a wait acquires what the post before it released.
 * Fallback:  needs no rseq; the same code everywhere.
 * Fairness:  first in, first out among sleepers. A wait that finds a unit takes it, so a running
 *            thread can come before the sleeper that a post has woken. But a post reserves its unit
 *            for a sleeper that has waited for a millisecond, at most once in half a millisecond:
 *            waits that begin later leave it to that sleeper for a millisecond. So a sleeper waits
 *            for about a millisecond for each one before it, and for the next post, if the sleepers
 *            get a CPU within a millisecond. While a woken thread has not run yet, one in 32 posts
 *            of each thread checks.
 * Suspended: a thread that a signal handler, a debugger or a collector suspends while it waits has
 *            no unit, and delays the others by 10 ms at most (exception: near_sem(3)).
 * Freeing:   when all waits have returned: a post does not access the semaphore after it has added
 *            its unit, unless others sleep.
 * Fork:      no thread waits in the child; it has the parent's units.
 *
 * Concurrent with: everything with everything.
 *
 *     static struct near_sem free_slots = NEAR_SEM_INIT(8);
 *
 *     near_sem_wait(&free_slots);
 *     ...
 *     near_sem_post(&free_slots);
 *
 * Source: Dijkstra's semaphores; sleepers are in the parking lot, and treated as those of mutex.h.
 */
#ifndef NEARCPU_SEM_H
#define NEARCPU_SEM_H

#include <nearcpu/cancel.h>
#include <time.h>

NEAR__BEGIN_DECLS

/* Private: twice the units, plus 1 if a thread may sleep, plus 2^31 if a unit is reserved. */
struct near_sem {
	uint32_t word;
};

#define NEAR_SEM_MAX 0x3fffffffu
/* clang-format off */
#define NEAR_SEM_INIT(units) { (uint32_t)(units) << 1 }
/* clang-format on */

/* The same for memory that no initialiser reaches. Requires that no thread uses the semaphore. */
NEAR_INLINE void near_sem_init(struct near_sem *s, uint32_t units)
{
	s->word = units << 1;
}

/* Takes a unit if there is one, even if it is reserved. Never waits. */
NEAR_API bool near_sem_try_wait(struct near_sem *s);

/* Takes a unit; spins for less than two microseconds, yields, then sleeps, until there is one. */
NEAR_API void near_sem_wait(struct near_sem *s);

/* The same: 0. Or gives up: -ETIMEDOUT when the deadline (absolute; NULL: none) has passed by
 * `clock` (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME); -ECANCELED: `cancel` (NULL: none) is set;
 * -EINTR: `clock` has NEAR_INTERRUPTIBLE (cancel.h), and a signal handler ran; -EINVAL: unknown
 * clock, or an invalid deadline. A unit that is there is taken in any case. */
NEAR_API int near_sem_wait_until(struct near_sem *s, int clock, const struct timespec *deadline,
				 struct near_cancel *cancel);

/* Adds a unit and wakes a sleeper. Returns 0; -EOVERFLOW: there are NEAR_SEM_MAX. */
NEAR_API int near_sem_post(struct near_sem *s);

/* How many units there are at this moment. */
NEAR_INLINE uint32_t near_sem_read(const struct near_sem *s)
{
	return __atomic_load_n(&s->word, __ATOMIC_RELAXED) >> 1 & NEAR_SEM_MAX;
}

NEAR__END_DECLS

#endif
