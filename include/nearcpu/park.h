/* SPDX-License-Identifier: MIT */
/* park: sleep and wake on an address.
 *
 * A thread parks on an address; another one unparks it by that address. The memory at the address
 * is never read: it may be one byte, or unmapped. The thread that parks passes a callback that
 * checks whether the reason to sleep still holds. It runs under the lock that an unpark takes as
 * well, so no wake-up is lost between the check and the sleep. Small locks are built on this
 * (mutex.h): all that a waiter needs is on its stack.
 *
 * Cost:      one lock of a hashed bucket for each call, and a futex system call where a thread goes
 *            to sleep or is awoken. Waiters on unrelated addresses share a bucket only by a
 *            collision of the hash: there are 1,024 buckets.
 * Memory:    64 KiB for each process, of which it touches what it uses. No call allocates, ever.
 * Safety:    any thread; not in signal handlers. errno is left alone. No cancellation points. A
 *            signal handler that interrupts a wait must return: after siglongjmp(3) the waiter,
 *            which is on the stack, stays in its queue.
 * Order:     an unpark releases, and the park that it ends acquires.
 * Fallback:  needs no rseq; the same code everywhere.
 * Fairness:  first in, first out, for each address.
 * Suspended: near_unpark wakes exactly n threads, and passes each its token, even if one of them is
 *            suspended by a signal handler or a debugger. near_unpark_with reports how many were
 *            not asleep, for locks that then wake another one.
 * Fork:      no thread is parked in the child. The child of a bare clone() must not park.
 * Instances: one table for each process, however many of its objects contain the library.
 *
 * Callbacks run under the lock of a bucket: they must not park, unpark, lock, allocate or take
 * long.
 *
 * Concurrent with: everything with everything.
 *
 *     static bool is_closed(void *door)
 *     {
 *             return !__atomic_load_n((int *)door, __ATOMIC_ACQUIRE);
 *     }
 *
 *     struct near_park p = {.validate = is_closed, .arg = &door};
 *     while (is_closed(&door))
 *             near_park(&door, &p);
 *     ...
 *     __atomic_store_n(&door, 1, __ATOMIC_RELEASE);            // elsewhere
 *     near_unpark(&door, NEAR_UNPARK_ALL, 0);
 *
 * Source: the parking lot of WebKit (2015) and Rust's parking_lot. Differs in that the table never
 * grows, so that there is nothing to allocate, in deadlines on three clocks, and in tokens that
 * cancel. thrsleep.h is on the same table.
 */
#ifndef NEARCPU_PARK_H
#define NEARCPU_PARK_H

#include <nearcpu/cancel.h>
#include <stddef.h>
#include <time.h>

NEAR__BEGIN_DECLS

/* How to park. Zero in a field is a valid choice. */
struct near_park {
	/* Under the lock: whether to sleep. NULL: yes. */
	bool (*validate)(void *arg);
	/* Before the sleep, without the lock, when an unpark already finds this thread. */
	void (*before_sleep)(void *arg);
	/* Under the lock, when this thread leaves by deadline, token or signal: the address it is
	 * on now (see requeue), and whether others are. */
	void (*left)(void *arg, const void *address, bool others);
	void *arg;
	uintptr_t mark; /* passed to `choose` of an unpark */
	int clock;      /* CLOCK_MONOTONIC, _REALTIME or _BOOTTIME, perhaps | NEAR_INTERRUPTIBLE */
	const struct timespec *deadline; /* absolute; NULL: none */
	struct near_cancel *cancel;      /* NULL: none */
	uintptr_t token;                 /* out: the token of the unpark */
};

/* Parks the thread. 0: unparked, and p->token is set. -EAGAIN: validate returned false. Ended
 * without an unpark: -ETIMEDOUT, by the deadline; -ECANCELED, by the token; -EINTR: the clock has
 * NEAR_INTERRUPTIBLE (cancel.h), and a signal handler ran. -EINVAL: unknown clock, or an invalid
 * deadline; no callback was called. validate and before_sleep are called even if the deadline is in
 * the past. */
NEAR_API int near_park(const void *address, struct near_park *p);

#define NEAR_UNPARK_ALL ((size_t)-1)

/* Wakes the first n threads that are parked on the address. Returns their number. */
NEAR_API size_t near_unpark(const void *address, size_t n, uintptr_t token);

enum near_park_choice { NEAR_PARK_CHOOSE, NEAR_PARK_SKIP, NEAR_PARK_STOP };

struct near_unparked {
	size_t woken, requeued;
	bool more; /* others stay on the address */
	/* How many of `woken` were not asleep: they were about to sleep, or they are suspended, by
	 * a signal handler or a debugger. 0 in `decide`. */
	unsigned awake;
};

/* How to unpark. Zero in a field is a valid choice. */
struct near_unpark {
	size_t wake;    /* how many of the selected threads are woken, the first ones, */
	size_t requeue; /* and how many of the next ones are appended to the queue of `to` */
	const void *to;
	/* All three under the lock. Whether to go on; NULL: yes. */
	bool (*validate)(void *arg);
	/* Called for each thread in turn, with the mark that it parked with: whether to select it.
	 * NULL: all are selected. */
	enum near_park_choice (*choose)(void *arg, uintptr_t mark);
	/* Called once, after the threads to wake are selected and before any is woken. Returns the
	 * token. NULL: the token is `token`. */
	uintptr_t (*decide)(void *arg, const struct near_unparked *found);
	void *arg;
	uintptr_t token;
};

/* Wakes and moves threads as *u specifies; *found (may be NULL) receives their numbers. Returns 0,
 * or -EAGAIN: validate returned false. */
NEAR_API int near_unpark_with(const void *address, const struct near_unpark *u,
			      struct near_unparked *found);

NEAR__END_DECLS

#endif
