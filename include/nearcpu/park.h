/* SPDX-License-Identifier: MIT */
/* park: sleep and wake on an address.
 *
 * A thread parks on an address; another one unparks it by that address. What the address points to
 * is never looked at: it may be one byte, or gone. Whoever parks says by a callback whether the
 * reason to sleep still holds, and is asked under the lock that an unpark takes too, so that no
 * wake-up falls between the question and the sleep. Locks that are to be small are built on this
 * (mutex.h): all that a waiter needs stands on the waiter's stack.
 *
 * near_thrsleep and near_thrwakeup are the same with the contract of OpenBSD's system calls.
 *
 * Cost:      one lock of a hashed bucket for each call, and a futex system call where a thread goes
 *            to sleep or is awoken. Waiters on unrelated addresses do not meet, but by chance of
 *            the hash: there are 1,024 buckets.
 * Memory:    64 KiB for each process, of which it touches what it uses. No call allocates, ever.
 * Safety:    any thread; not in signal handlers. errno is left alone. No cancellation points.
 * Order:     what was written before an unpark is seen by the thread that it woke.
 * Fairness:  first in, first out, for each address.
 * Fork:      in the child nobody is parked.
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
	/* On the way to sleep, without the lock, when an unpark already finds this thread. */
	void (*before_sleep)(void *arg);
	/* Under the lock, when this thread leaves by deadline, token or signal: the address it is
	 * on now (see requeue), and whether others are. */
	void (*left)(void *arg, const void *address, bool others);
	void *arg;
	uintptr_t mark;                  /* for the `choose` of who unparks */
	int clock;                       /* CLOCK_MONOTONIC, _REALTIME or _BOOTTIME */
	const struct timespec *deadline; /* absolute; NULL: none */
	struct near_cancel *cancel;      /* NULL: none */
	bool interruptible;              /* a signal handler that ran ends the wait */
	uintptr_t token;                 /* out: what the unpark said */
};

/* Parks the thread. 0: unparked, and p->token is set. -EAGAIN: validate said no. -ETIMEDOUT,
 * -ECANCELED, -EINTR: left by the deadline, the token, a signal; nobody unparked it. -EINVAL:
 * unknown clock, or a deadline that is no time; nothing was called. A deadline in the past does not
 * keep validate and before_sleep from being called. */
NEAR_API int near_park(const void *address, struct near_park *p);

#define NEAR_UNPARK_ALL ((size_t)-1)

/* Wakes the first n who are parked on the address. Returns how many. */
NEAR_API size_t near_unpark(const void *address, size_t n, uintptr_t token);

enum near_choice { NEAR_CHOOSE, NEAR_SKIP, NEAR_STOP };

struct near_unparked {
	size_t woken, requeued;
	bool more; /* others stay on the address */
};

/* How to unpark. Zero in a field is a valid choice. */
struct near_unpark {
	size_t wake;    /* the first so many of the chosen are woken, */
	size_t requeue; /* the next so many moved behind those who are parked on `to` */
	const void *to;
	/* All three under the lock. Whether to go on; NULL: yes. */
	bool (*validate)(void *arg);
	/* Asked of one after the other, by the mark it parked with. NULL: all are chosen. */
	enum near_choice (*choose)(void *arg, uintptr_t mark);
	/* Called once, when it is known who is woken and nobody is yet. Returns the token. NULL:
	 * `token` it is. */
	uintptr_t (*decide)(void *arg, const struct near_unparked *found);
	void *arg;
	uintptr_t token;
};

/* Wakes and moves as u says; *found (may be NULL) tells whom. 0, or -EAGAIN: validate said no. */
NEAR_API int near_unpark_with(const void *address, const struct near_unpark *u,
			      struct near_unparked *found);

/* ---- thrsleep(2) of OpenBSD ---- */

#define NEAR_THR_UNLOCKED 0u

/* Sleeps on ident until near_thrwakeup, as OpenBSD's __thrsleep(2); its order of checks and its
 * results, which are positive errors. The deadline is on any clock that clock_gettime(2) knows, and
 * is turned into a time to wait at once. `lock` (may be NULL) is set to NEAR_THR_UNLOCKED when the
 * thread is in the queue, `abort` (may be NULL) read after that.
 *
 *     0            woken
 *     EINVAL       ident is 0, the clock unknown, or the deadline no time: lock was not let go of
 *     EWOULDBLOCK  the deadline passed; if it had before the call, `abort` was not read
 *     EINTR        *abort was not 0, or a signal handler ran
 *
 * near_thrsleep(3) says where this differs from OpenBSD. */
NEAR_API int near_thrsleep(const volatile void *ident, int clock, const struct timespec *deadline,
			   uint32_t *lock, const int *abort);

/* Wakes the first n who sleep on ident, all if n is not positive. 0; EINVAL: ident is 0; ESRCH:
 * nobody slept. Ident -1: wakes all who sleep on -1, in all processes that are attached to the same
 * region, and returns 0. */
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
 * Requires that nobody sleeps on -1 in this process, and that the region stays mapped. */
NEAR_API void near_thr_attach(struct near_thr_region *region);

#ifdef __cplusplus
}
#endif

#endif
