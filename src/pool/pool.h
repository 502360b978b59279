/* SPDX-License-Identifier: MIT */
/* pool: what the files of this folder share.
 *
 * An idle object is in one place: in the array of a slot, in the center, or on the lock-free list
 * `returned`. Each slot has room for a fixed part of the cap, and the center for the rest, so that
 * idle objects never exceed the cap, wherever they flow, and nothing has to count them. A thread
 * without a slot, or whose slot is closed, uses the center; in a process without rseq each CPU has
 * a fallback slot, which is used under a lock.
 *
 * What needs the pool's lock and must not wait for it (put, in a signal handler that interrupted
 * the holder) goes on `returned` instead: objects, which exceed the cap there for a moment, and the
 * memory of objects that were destructed. A thread pushes by CAS and takes all by an exchange, so
 * that a head which left and came back does no harm. A thread that has pushed tries the lock again,
 * and one that releases it loads the list again: one of the two moves what was pushed
 * (models/pool.pml, pool.cc). The lock is one of a few that pools share: after a holder that came
 * from another pool, or from near_pool_stats, what was pushed waits for the next slow call.
 *
 * The limit. `live` counts the memory of objects, in use and idle, being constructed and
 * destructed; with the lock it never exceeds `limit`. The first get that finds all of it live
 * makes the pool scarce, for good: it stores NEAR__POOL_SCARCE with the lock, closes and empties
 * all arrays, waits for the threads that have batches of idle objects in their hands (`moving`),
 * and stores NEAR__POOL_CLOSED. Arrays begin with the lock too, and not in a scarce pool, so it
 * finds all of them. No batch leaves the center of a scarce pool, nor a closed array. So what is
 * idle after NEAR__POOL_CLOSED is in the center or on `returned`, and a get that loads this and
 * then searches both with the lock fails only if there is none. Threads that move a batch call none
 * of the user's functions in between: the wait is short, and no constructor can wait for itself.
 *
 * Waiters. A get that waits adds itself to `waiters` and then tries once more; a thread that
 * returns an object or its memory then loads `waiters`, with a fence between the two on either
 * side: one of them finds what the other stored. `tickets` is a semaphore: a return adds a ticket
 * unless there are as many as waiters, each of which then tries again after this. A ticket too
 * many costs a try; one that a waiter leaves by its deadline is there for the next one. (Both:
 * models/pool_limit.pml. Waiters that a fork's child does not have cost it such tries.)
 *
 * Constructors and destructors are called without a lock. */
#ifndef NEARCPU_POOL_INTERNAL_H
#define NEARCPU_POOL_INTERNAL_H

#include <nearcpu/pool.h>
#include <nearcpu/sem.h>

#include <limits.h>

#include "cache/cache.h"
#include "percpu/percpu.h"

/* The copy of a slot, or of a CPU without rseq: of these there are as many at most. */
struct near__pool_slot {
	struct near__array array;
	uint64_t objects[]; /* near__pool.room */
};
_Static_assert(offsetof(struct near__pool_slot, objects) == NEAR__EMPTY_LIST, "the sequences");

/* Objects of a slot, by its position. */
static inline uint32_t near__pool_count(uint64_t position)
{
	return position > NEAR__EMPTY_LIST ? (uint32_t)(position - NEAR__EMPTY_LIST) / 8 : 0;
}

struct near__pool_chunk {
	uint64_t raw;    /* list of memory without an object; 0: empty */
	uint32_t carved; /* what follows was never used since the chunk was empty */
	uint32_t live;   /* objects */
	uint32_t next;   /* of the chunks that have room */
};
#define NEAR__NO_CHUNK UINT32_MAX

enum near__pool_scarce {
	NEAR__POOL_AMPLE,
	NEAR__POOL_SCARCE, /* arrays are being closed */
	NEAR__POOL_CLOSED, /* nothing idle is in an array or in a thread's hands */
};

struct near__pool {
	struct near__pool_slot *slots;    /* percpu */
	struct near_pool_options options; /* with the defaults filled in */
	uint32_t room;                    /* objects that a slot can have; 0: no slot is used */
	size_t center;                    /* objects that the center can have, 1 or more */
	bool check;                       /* NEAR_CONF=pool_check:1 */
	struct near_lock *lock;
	/* Constant, see chunks.c. */
	uintptr_t base;
	size_t size, mapped, stride; /* `size`: of an object */
	uint32_t per_chunk, chunks;
	unsigned chunk_shift;
	uint64_t limit; /* objects */
	struct near__pool_chunk *chunk;
	uint64_t *idle; /* the objects of the center */

	uint64_t returned __attribute__((aligned(NEAR__CACHE_LINE))); /* a list; 0: empty */
	uint64_t constructed, destructed;
	uint64_t moving; /* near__pool_moves: threads with batches of idle objects in their hands */
	uint32_t scarce; /* enum near__pool_scarce */
	uint32_t waiters; /* gets that wait */
	struct near_sem tickets;
	/* Under the lock. */
	uint64_t count __attribute__((aligned(NEAR__CACHE_LINE))); /* objects of the center */
	uint64_t low;        /* the least that `count` was since near_pool_trim */
	uint32_t first_room; /* chunk that has room */
	uint32_t top;        /* chunks from here on are new */
	uint64_t used;       /* chunks with objects */
	uint64_t live;       /* objects */
};

static inline struct near__pool_slot *near__pool_slot(const struct near__pool *p, unsigned slot)
{
	return near_percpu_at(p->slots, slot);
}

/* A word of `returned` is the address of an object, or with this bit that of its memory alone. */
#define NEAR__POOL_RAW UINT64_C(1)

/* chunks.c: memory. take, give: with the pool's lock.
 * take: stores the memory of up to `want` objects, and returns of how many. */
unsigned near__pool_raw_take(struct near__pool *p, uint64_t *objects, unsigned want);
void near__pool_raw_give(struct near__pool *p, uint64_t object);
/* Whether there is an object at this address, in use or idle. */
bool near__pool_has(const struct near__pool *p, uint64_t object);
/* What follows the objects of a chunk, and takes no memory before it is used: the link of an object
 * that is on a list, also by its word of `returned`; with pool_check, whether it is in use. */
uint64_t *near__pool_link(const struct near__pool *p, uint64_t object);
uint8_t *near__pool_in_use(const struct near__pool *p, uint64_t object);
/* Sizes and address space, for a pool whose first fields are set. 0 or negative errno. */
int near__pool_map(struct near__pool **out, struct near__pool *begun);
void near__pool_unmap(struct near__pool *p);

/* center.c.
 * give: gives n objects to the center, and destructs what exceeds it. Does not wait. May change
 * what is in `objects`. `moves`: the caller has counted itself in `moving`; after this it is not.
 */
void near__pool_give(struct near__pool *p, uint64_t *objects, unsigned n, bool moves);
/* Stores up to `want` objects of the center, or new ones. Returns how many; if above 1, the caller
 * is counted in `moving`. 0: *error is why; or, without `wait`, the lock is held, or the center is
 * empty. NEAR__POOL_REACHED, which is no constructor's error: as many exist as may. */
#define NEAR__POOL_REACHED INT_MIN
unsigned near__pool_fetch(struct near__pool *p, uint64_t *objects, unsigned want, bool wait,
			  int *error);
/* Moves what is on `returned`, unless another thread has the lock and will. */
void near__pool_settle(struct near__pool *p);
/* Moves what the slots have to the center. */
void near__pool_gather(struct near__pool *p);
/* Begins an array, unless the lock is held or the pool is scarce. */
void near__pool_begin_array(struct near__pool *p, struct near__pool_slot *own);
/* Up to NEAR__POOL_CLOSED. */
void near__pool_become_scarce(struct near__pool *p);

static inline uint32_t near__pool_scarce(const struct near__pool *p)
{
	/* Acquire: pairs with the release of NEAR__POOL_CLOSED. */
	return __atomic_load_n(&p->scarce, __ATOMIC_ACQUIRE);
}

/* `moving` has the number of forks between this process and the first in its upper half: what the
 * parent counted does not count in the child, which does not have those threads.
 * Acquire: pairs with the release of a thread that has placed its objects. */
static inline uint32_t near__pool_moving(const struct near__pool *p)
{
	uint64_t word = __atomic_load_n(&p->moving, __ATOMIC_ACQUIRE);
	uint32_t forks = __atomic_load_n(&near__process.forks, __ATOMIC_RELAXED);

	return word >> 32 == forks ? (uint32_t)word : 0;
}

/* n: 1 or -1; the latter does nothing if the thread was counted before a fork, by a handler that
 * interrupted it. Acquire and release: what the thread takes and places stays between the two. */
static inline void near__pool_moves(struct near__pool *p, int n)
{
	uint64_t word = __atomic_load_n(&p->moving, __ATOMIC_RELAXED), next;
	uint64_t forks = __atomic_load_n(&near__process.forks, __ATOMIC_RELAXED);

	do {
		next = word >> 32 == forks ? word : forks << 32;
		if (n > 0)
			next++;
		else if ((uint32_t)next)
			next--;
	} while (!__atomic_compare_exchange_n(&p->moving, &word, next, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
}

#endif
