/* SPDX-License-Identifier: MIT */
/* lot: the queues of the parking lot, below its public forms. Buckets of waiters, hashed by
 * address.
 *
 * A waiter is on the stack of the thread that waits. It is in a queue, or a waker has taken it and
 * then wakes it; the lock of the bucket decides which. A waker that takes a waiter must call
 * near__lot_wake for it, after it has released the lock. The waiter's thread does not return before
 * that: so the waker may access the waiter until the call, and not afterwards. Waiters of a group
 * may return as soon as near__lot_take_group has taken them.
 *
 * A waiter that is taken may be suspended: by its own signal handler, a debugger, a stop-the-world
 * collector. The kernel has dropped it from the futex's queue then, so FUTEX_WAKE wakes no thread,
 * and near__lot_wake returns false. A waker whose wake-up must reach some thread then wakes the
 * next waiter too. It does the same if the waiter is about to sleep, or awake: one wake-up too
 * many. No waker passes to a waiter what other threads need: the waiter takes that by an
 * instruction of its own, when it runs. */
#ifndef NEARCPU_LOT_H
#define NEARCPU_LOT_H

#include <nearcpu/park.h>
#include <nearcpu/thrsleep.h>

#include "base/futex.h"
#include "kernel/kernel.h"
#include "parking/cancel.h"
#include "parking/timeout.h"

/* A namespace of addresses: near_park, near_thrsleep and a mutex at one address are independent. */
enum near__space {
	NEAR__SPACE_PARK,
	NEAR__SPACE_THR,
	NEAR__SPACE_MUTEX,
	NEAR__SPACE_COND,
	NEAR__SPACE_SEM,
	NEAR__SPACE_ONCE,
	NEAR__SPACE_BARRIER,
	NEAR__SPACE_RWLOCK,
	NEAR__SPACE_QUEUE,
};

struct near__waiter {
	struct near__waiter *next, *prev; /* under the lock; once taken, `next` is the waker's */
	const void *address;              /* changes under the locks of both buckets */
	uint32_t space;
	uint32_t word; /* the futex: enum near__waiter_word */
	bool queued;   /* under the lock */
	/* That of the bucket: the thread sleeps on it, and near__lot_wake_group wakes it. Requires
	 * that no token can cancel the wait. NULL: the thread sleeps on `word`. */
	uint32_t *group;
	uint64_t since;  /* CLOCK_MONOTONIC in ns */
	uintptr_t token; /* from the waker */
	/* Used by the owner of the space alone. */
	uint32_t kind, owner;
	bool broadcast; /* under the lock, while it is in the queue */
	uintptr_t mark;
	bool (*condition)(void *arg);
	uint64_t true_since; /* when `condition` was first true without a break; 0: it is not */
	/* Called under the lock when the waiter leaves by a deadline, a token or a signal. */
	void (*left)(struct near__waiter *w, bool others);
	/* Called by the waiter's thread, without the lock, during a long wait that neither a
	 * deadline nor a signal handler ends. True: the sleep ends with -EAGAIN, unless a waker was
	 * first. NULL: the sleeps need no timer, which is a tenth of the cost of the shortest
	 * ones. */
	bool (*check)(struct near__waiter *w);
	/* Called by the waker, without the lock, before the wait ends: no thread sleeps, but this
	 * notifies one. NULL: a thread sleeps. */
	void (*notify)(struct near__waiter *w);
	void *arg;
};

enum near__waiter_word {
	NEAR__ASLEEP = 1,    /* in FUTEX_WAIT, or about to call it */
	NEAR__CANCELLED = 2, /* by a token */
	NEAR__WOKEN = 4,     /* by a waker that has taken the waiter */
};

struct near__bucket {
	struct near_lock lock __attribute__((aligned(NEAR__CACHE_LINE)));
	struct near__waiter *first, *last;
	uint32_t hold_time; /* of the mutexes in this bucket, see locks/tuning.h */
	uint32_t group;     /* how often near__lot_wake_group woke sleepers of this bucket */
	const void *waking; /* a semaphore, see locks/sem.c */
	/* The last address that near__lot_note_handover was called for, and when (CLOCK_MONOTONIC
	 * in ns). */
	const void *handoff_of;
	uint64_t handoff_at;
};

#define NEAR__BUCKET_BITS 10
#define NEAR__BUCKETS (1u << NEAR__BUCKET_BITS)

/* Called under the lock. Takes the waiters on the address (NULL: all of the caller's space) that
 * can be woken by now. They are linked by `next`. */
typedef struct near__waiter *near__lot_deferred(struct near__bucket *b, const void *address);

/* The process has one, and zero is valid. */
struct near__lot {
	union {
		struct {
			uint32_t watches_forks; /* a copy of the library has its handlers */
			uint32_t is_used;       /* some bucket was locked */
			uint32_t forks;         /* between this process and the first */
			struct near_thr_region alone, *region;
			near__lot_deferred *settle; /* the same for all threads */
		};
		char room[1024]; /* for later fields */
	};
	struct near__bucket buckets[NEAR__BUCKETS];
};
extern NEAR__DATA struct near__lot near__lot NEAR__STATE(near__lot);

struct near__bucket *near__lot_bucket(const void *address);

struct near__bucket *near__lot_lock(const void *address);
void near__lot_unlock(struct near__bucket *b);

/* False: this thread may lock a bucket. True: the caller is a signal handler that interrupted a
 * section of its thread; the thread calls `settle` for the address when it leaves the section. All
 * callers pass the same `settle`, that of semaphores. */
bool near__lot_defer(const void *address, near__lot_deferred *settle);

/* Locks the buckets of two addresses, which may be one bucket. */
void near__lot_lock_both(const void *a, const void *b, struct near__bucket *locked[2]);
void near__lot_unlock_both(struct near__bucket *locked[2]);

/* ---- under the lock, or both locks ---- */

/* The first waiter on the address, and the next one; NULL: none. */
struct near__waiter *near__lot_first(struct near__bucket *b, const void *address, uint32_t space);
struct near__waiter *near__lot_next(const struct near__waiter *w);

/* Adds a waiter at the end of the queue; or before the first on its address that came later. */
void near__lot_append(struct near__bucket *b, struct near__waiter *w);
void near__lot_insert(struct near__bucket *b, struct near__waiter *w);

/* Moves a waiter from one queue to the end of another. */
void near__lot_move(struct near__bucket *from, struct near__bucket *to, struct near__waiter *w,
		    const void *address, uint32_t space);

/* Takes a waiter out of the queue. */
void near__lot_take(struct near__bucket *b, struct near__waiter *w);

/* Whether a waker is to reserve what `w`, the first waiter, waits for, so that running threads
 * leave it to the waiter for RESERVED_NS: the waiter has waited for PATIENCE, and the last such
 * reservation of the address was HANDOVER ago. Each reservation makes all others wait until one
 * thread has been woken: without the second rule, once all waiters are that old, each section would
 * take as long as a context switch. With it, n waiters are served in PATIENCE and n times HANDOVER.
 * Other addresses in the bucket delay nothing. */
#define NEAR__PATIENCE_NS 1000000
#define NEAR__HANDOVER_NS 500000
bool near__lot_is_due(const struct near__bucket *b, const struct near__waiter *w);

/* Called by a waker that reserves it for that reason. */
void near__lot_note_handover(struct near__bucket *b, const struct near__waiter *w);

/* A list of taken waiters, linked by `next`: {.end = &list.first} is empty. */
struct near__taken {
	struct near__waiter *first, **end;
};
void near__lot_take_into(struct near__taken *list, struct near__bucket *b, struct near__waiter *w);

/* Takes the first n waiters on the address, linked by `next`. */
struct near__waiter *near__lot_take_some(struct near__bucket *b, const void *address,
					 uint32_t space, size_t n);

/* Takes all waiters on the address, and already ends the waits of those with `group`, so that the
 * waker accesses each only once. The caller then calls near__lot_wake_group. */
struct near__group {
	struct near__waiter *others; /* without `group` */
	bool any;                    /* there was one with `group` */
};
struct near__group near__lot_take_group(struct near__bucket *b, const void *address,
					uint32_t space);

/* ---- without a lock ---- */

/* Ends the wait of a waiter that was taken (NULL: none), which the caller must not access
 * afterwards. False: it was not asleep, and may be suspended. */
bool near__lot_wake(struct near__waiter *w);

/* The same for a list. Returns how many were not asleep. */
size_t near__lot_wake_all(struct near__waiter *w);

/* The same for all that near__lot_take_group has taken. One system call wakes those with `group`,
 * and others with this `group`, which sleep again. */
void near__lot_wake_group(struct near__bucket *b, const struct near__group *taken);

/* Leaves the queue. False: a waker was first, and has woken the waiter by now. */
bool near__lot_leave(struct near__waiter *w);

/* Sleeps until woken: 0. Or leaves the queue: -ETIMEDOUT, -ECANCELED, -EINTR, -EAGAIN (`check`). */
int near__lot_sleep(struct near__waiter *w, const struct near__timeout *t);

/* The same, but for `ns` at most: the waiter relies on a thread that was woken before it, and that
 * may be suspended, or get no CPU. -EAGAIN: that time is over. */
#define NEAR__RESERVED_NS 1000000 /* while that thread has a reservation */
#define NEAR__RELIANCE_NS 10000000
int near__lot_sleep_for(struct near__waiter *w, const struct near__timeout *t, int64_t ns);

/* Sleeps while *word is `value`, without a queue. 0: the caller is to load the word again;
 * -ETIMEDOUT; -EINTR if the wait is interruptible. `shared`: the word is in memory that processes
 * share. */
int near__futex_wait(uint32_t *word, uint32_t value, const struct near__timeout *t, bool shared);

#endif
