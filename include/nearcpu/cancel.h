/* SPDX-License-Identifier: MIT */
/* cancel: a token that ends waits.
 *
 * A thread that waits (park.h, mutex.h) names a token; setting the token ends all waits that name
 * it, and all that will. A program that shuts down, or a request that is abandoned, has one token
 * for all waits of its threads.
 *
 * Cost:      is_set: one load. A wait with a token acquires and releases a lock two more times. set
 *            wakes each waiter by one system call.
 * Memory:    16 bytes. Zero is a token that is not set. There is nothing to destroy.
 * Safety:    any thread; not in signal handlers. No operation allocates. errno is left alone.
 * Order:     set releases; is_set, and a wait that the token ended, acquire.
 * Fallback:  needs no rseq; the same code everywhere.
 * Lifetime:  until the call of set has returned and every wait that names the token too.
 * Fork:      the child's token is set if the parent's was; no thread waits.
 *
 * Concurrent with:   set  is_set  wait  reset
 *            each    yes   yes    yes    no
 *
 *     static struct near_cancel stopping;
 *
 *     if (near_mutex_lock_until(&m, CLOCK_MONOTONIC, NULL, &stopping) == -ECANCELED)
 *             return;
 *     ...
 *     near_cancel_set(&stopping);            // elsewhere
 *
 * Source: the notes of nsync and the contexts of Go; differs in that a token has neither parents
 * nor a deadline: each wait has a deadline of its own.
 */
#ifndef NEARCPU_CANCEL_H
#define NEARCPU_CANCEL_H

#include <nearcpu/lock.h>

NEAR__BEGIN_DECLS

/* For the clock of any wait that takes a deadline: CLOCK_MONOTONIC | NEAR_INTERRUPTIBLE. A signal
 * handler that runs while the thread sleeps in the kernel then ends the wait, which returns -EINTR
 * (as sem_wait(3) does): always if there is a deadline, else if the handler was installed without
 * SA_RESTART. A handler that runs before the thread sleeps does not: where that matters, let it
 * post what is waited for. */
#define NEAR_INTERRUPTIBLE 0x10000

struct near__cancel_wait;

/* Private. */
struct near_cancel {
	struct near__cancel_wait *waits;
	uint32_t is_set;
	uint32_t forks;
};

/* clang-format off */
#define NEAR_CANCEL_INIT { 0, 0, 0 }
/* clang-format on */

/* Sets the token permanently. Each wait that names it ends by -ECANCELED, unless its condition was
 * fulfilled first. */
NEAR_API void near_cancel_set(struct near_cancel *c);

NEAR_INLINE bool near_cancel_is_set(const struct near_cancel *c)
{
	/* Acquire: pairs with the release in set. */
	bool is_set = __atomic_load_n(&c->is_set, __ATOMIC_ACQUIRE);

	if (is_set)
		NEAR__WATCHED_ACQUIRE(&c->is_set);
	return is_set;
}

/* Makes the token new. Requires that no thread uses it. */
NEAR_API void near_cancel_reset(struct near_cancel *c);

NEAR__END_DECLS

#endif
