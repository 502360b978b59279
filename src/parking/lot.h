/* SPDX-License-Identifier: MIT */
/* lot: the parking lot's queues, under what is public. Buckets of waiters, hashed by address.
 *
 * A waiter stands on the stack of the thread that waits. It is in a queue, or was taken by a waker,
 * who then wakes it; either is decided under the lock of the bucket. Who takes a waiter owes it a
 * near__lot_wake, after the lock was let go of. Its thread does not return before: so the waker
 * may touch it until then, and not afterwards. */
#ifndef NEARCPU_LOT_H
#define NEARCPU_LOT_H

#include <nearcpu/park.h>

#include "cancel.h"
#include "kernel/internal.h"
#include "limit.h"

/* What an address means: near_park, near_thrsleep, a mutex at one address do not meet. */
enum near__space {
	NEAR__SPACE_PARK,
	NEAR__SPACE_THR,
	NEAR__SPACE_MUTEX,
	NEAR__SPACE_COND,
	NEAR__SPACE_SEM,
	NEAR__SPACE_ONCE,
	NEAR__SPACE_BARRIER,
	NEAR__SPACE_RWLOCK,
};

struct near__waiter {
	struct near__waiter *next, *prev; /* under the lock; `next` is the waker's once taken */
	const void *address;              /* changed under the locks of both buckets */
	uint32_t space;
	uint32_t word;   /* the futex: enum near__waiter_word */
	bool queued;     /* under the lock */
	uint64_t since;  /* CLOCK_MONOTONIC in ns */
	uintptr_t token; /* from the waker */
	/* What only the owner of the space knows. */
	uint32_t kind, owner;
	uintptr_t mark;
	bool (*condition)(void *arg);
	uint64_t true_since; /* the condition, whenever it was asked; 0: it was not */
	void (*left)(struct near__waiter *w, bool others); /* under the lock, by deadline etc. */
	/* By the waiter's thread, without the lock, when a wait gets long that neither a deadline
	 * nor a signal handler ends. NULL: its sleeps need no timer, which is a tenth of what the
	 * shortest ones cost. */
	void (*check)(struct near__waiter *w);
	void *arg;
};

enum near__waiter_word {
	NEAR__ASLEEP = 1, /* in the kernel, or about to enter */
	NEAR__POKED = 2,  /* by a token of cancellation */
	NEAR__WOKEN = 4,  /* for good */
};

struct near__order;

struct near__bucket {
	struct near_lock lock __attribute__((aligned(NEAR__CACHE_LINE)));
	struct near__waiter *first, *last;
	uint32_t pace; /* of the mutexes here, see pace.h */
};

#define NEAR__BUCKET_BITS 10
#define NEAR__BUCKETS (1u << NEAR__BUCKET_BITS)

#define NEAR__OWNER_NAMES 16 /* forks over which a mutex can be held, one in the other's child */

/* One for each process (ground/unique.h). Zero is valid. */
struct near__lot {
	union {
		struct {
			uint32_t watches_forks;
			uint32_t is_used; /* some bucket was locked */
			uint32_t forks;   /* between this process and the first */
			/* near__owner of the thread that forked: here, and in the processes before,
			 * as far back as it was the one that forked. */
			uint32_t owner_here, owner_names, owner_before[NEAR__OWNER_NAMES];
			uint32_t process; /* its number; not that of a vfork's child */
			struct near_thr_region alone, *region;
			struct near__order *order; /* of the checker, once used */
			uint32_t order_said;
			/* Of mutexes, see src/locks/mutex_unlock.c. 0: not yet known. */
			uint32_t calm_needed;
			uint64_t fences;
		};
		char room[1024]; /* for later fields */
	};
	struct near__bucket buckets[NEAR__BUCKETS];
};
extern NEAR_API struct near__lot near__lot;

/* Under the lock. Takes waiters on the address, or with NULL on all of the caller's space, for whom
 * there is something by now. They are linked by `next`. */
typedef struct near__waiter *near__lot_settle(struct near__bucket *b, const void *address);

/* Of this thread: by this a signal handler that interrupted it knows whether it may lock a bucket,
 * and leaves word of what it could not do. */
struct near__lot_mine {
	uint32_t depth;       /* buckets that it has locked or is about to; a fork counts as one */
	uint32_t many;        /* more addresses than one are deferred, */
	const void *deferred; /* or this one; NULL: none */
	near__lot_settle *settle;
};
extern NEAR_API __thread struct near__lot_mine near__lot_mine
	__attribute__((tls_model("initial-exec")));

struct near__bucket *near__lot_bucket(const void *address);

struct near__bucket *near__lot_lock(const void *address);
void near__lot_unlock(struct near__bucket *b);

/* False: this thread may lock a bucket. True: the caller is a signal handler that interrupted it
 * where it may not, and it will call `settle` for the address when it leaves there. There is one
 * `settle`, that of semaphores. */
bool near__lot_defer(const void *address, near__lot_settle *settle);

/* Locks the buckets of two addresses, which may be one. */
void near__lot_lock_both(const void *a, const void *b, struct near__bucket *locked[2]);
void near__lot_unlock_both(struct near__bucket *locked[2]);

/* Under the lock. The first waiter on the address, and the next one; NULL: none. */
struct near__waiter *near__lot_first(struct near__bucket *b, const void *address, uint32_t space);
struct near__waiter *near__lot_next(const struct near__waiter *w);

/* Under the lock: into the queue, at its end; or before those on the address that came later. */
void near__lot_append(struct near__bucket *b, struct near__waiter *w);
void near__lot_insert(struct near__bucket *b, struct near__waiter *w);

/* Under both locks: from one queue to the end of another. */
void near__lot_move(struct near__bucket *from, struct near__bucket *to, struct near__waiter *w,
		    const void *address, uint32_t space);

/* Under the lock: out of the queue. */
void near__lot_take(struct near__bucket *b, struct near__waiter *w);

/* Under the lock: takes the first n on the address. They are linked by `next`; NULL: nobody. */
struct near__waiter *near__lot_take_some(struct near__bucket *b, const void *address,
					 uint32_t space, size_t n);

/* Without the lock: ends the wait of who was taken. The waiter is gone afterwards. */
void near__lot_wake(struct near__waiter *w);

/* The same of all that `next` links. */
void near__lot_wake_all(struct near__waiter *w);

/* Without the lock: out of the queue. False: a waker was first, and has woken it by now. */
bool near__lot_leave(struct near__waiter *w);

/* Sleeps until woken: 0. Or leaves the queue: -ETIMEDOUT, -ECANCELED, -EINTR. */
int near__lot_sleep(struct near__waiter *w, const struct near__limit *l);

#endif
