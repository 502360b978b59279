/* SPDX-License-Identifier: MIT */
/* park: sleep and wake on an address.
 *
 * A thread parks on an address; another one unparks it by that address. The memory at the address
 * is never read: it may be one byte, or unmapped. The thread that parks passes a callback that
 * checks whether the reason to sleep still holds. It runs under the lock that an unpark takes as
 * well, so no wake-up is lost between the check and the sleep. Small locks are built on this
 * (mutex.h): all that a waiter needs is on its stack.
 *
 * near_thrsleep and near_thrwakeup are the same with the contract of OpenBSD's system calls.
 *
 * Cost:      one lock of a hashed bucket for each call, and a futex system call where a thread goes
 *            to sleep or is awoken. Waiters on unrelated addresses share a bucket only by a
 *            collision of the hash: there are 1,024 buckets.
 * Memory:    64 KiB for each process, of which it touches what it uses. No call allocates, ever.
 * Safety:    any thread; not in signal handlers. errno is left alone. No cancellation points.
 * Order:     an unpark releases, and the park that it ends acquires.
 * Fairness:  first in, first out, for each address.
 * Suspended: near_unpark wakes exactly n threads, and passes each its token, even if one of them is
 *            suspended by a signal handler or a debugger. near_unpark_with reports how many were
 *            not asleep, for locks that then wake another one. near_thrwakeup wakes the next
 *            sleeper in place of each that was not asleep, as OpenBSD does.
 * Fork:      no thread is parked in the child.
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
 * Source: the parking lot of WebKit (2015) and Rust's parking_lot; thrsleep(2) of OpenBSD, whose
 * one queue became hashed buckets in 2024. Differs from the former in that the table never grows,
 * so that there is nothing to allocate, in deadlines on three clocks, and in tokens that cancel.
 */
#ifndef NEARCPU_PARK_H
#define NEARCPU_PARK_H

#include <nearcpu/cancel.h>
#include <stddef.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

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
	uintptr_t mark;                  /* passed to `choose` of an unpark */
	int clock;                       /* CLOCK_MONOTONIC, _REALTIME or _BOOTTIME */
	const struct timespec *deadline; /* absolute; NULL: none */
	struct near_cancel *cancel;      /* NULL: none */
	bool interruptible;              /* a signal handler that ran ends the wait */
	uintptr_t token;                 /* out: the token of the unpark */
};

/* Parks the thread. 0: unparked, and p->token is set. -EAGAIN: validate returned false. -ETIMEDOUT,
 * -ECANCELED, -EINTR: ended by the deadline, the token, a signal, without an unpark. -EINVAL:
 * unknown clock, or a deadline that is no time; no callback was called. validate and before_sleep
 * are called even if the deadline is in the past. */
NEAR_API int near_park(const void *address, struct near_park *p);

#define NEAR_UNPARK_ALL ((size_t)-1)

/* Wakes the first n threads that are parked on the address. Returns their number. */
NEAR_API size_t near_unpark(const void *address, size_t n, uintptr_t token);

enum near_choice { NEAR_CHOOSE, NEAR_SKIP, NEAR_STOP };

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
	enum near_choice (*choose)(void *arg, uintptr_t mark);
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

/* ---- thrsleep(2) of OpenBSD ---- */

#define NEAR_THR_UNLOCKED 0u

/* Sleeps on ident until near_thrwakeup, as OpenBSD's __thrsleep(2); its order of checks and its
 * results, which are positive errors. The deadline is on any clock that clock_gettime(2) knows, and
 * is converted into a duration at the call. `lock` (may be NULL) is set to NEAR_THR_UNLOCKED when
 * the thread is in the queue, `abort` (may be NULL) read after that.
 *
 *     0            woken
 *     EINVAL       ident is 0, the clock unknown, or the deadline no time: lock was not released
 *     EWOULDBLOCK  the deadline passed; if it had before the call, `abort` was not read
 *     EINTR        *abort was not 0, or a signal handler ran
 *
 * near_thrsleep(3) lists the differences from OpenBSD. */
NEAR_API int near_thrsleep(const volatile void *ident, int clock, const struct timespec *deadline,
			   uint32_t *lock, const int *abort);

/* Wakes the first n threads that sleep on ident, all if n is not positive; and the next one for
 * each of them that was not asleep (it runs a signal handler, or was about to sleep). Returns 0;
 * EINVAL: ident
 * is 0; ESRCH: no thread slept. Ident -1: wakes all threads that sleep on -1, in all processes that
 * are attached to the same region, and returns 0. */
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

#ifdef __cplusplus
}
#endif

#endif
