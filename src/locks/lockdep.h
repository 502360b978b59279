/* SPDX-License-Identifier: MIT */
/* lockdep: the lock-order checker, NEAR_CONF=lock_check:1.
 *
 * A thread that locks while it holds other locks makes a pair with each: held before wanted. The
 * pairs form a graph; a pair that closes a cycle is reported before the thread waits, whether or
 * not it would have to wait this time.
 *
 * A checked thread has NEAR__NO_OWNER in near__more.owner, so that near_mutex's inline paths fail
 * for it and every lock and unlock reaches the slow paths, which call the functions below. While
 * the checker is off, it costs the slow paths one comparison, and the inline paths nothing.
 *
 * A lock that can wait calls before_lock, then, when it has the lock, locked. One that cannot wait
 * (try_lock) calls locked alone: it makes no pair as the later lock, but does as the earlier one. A
 * lock is only an address here; the checker never reads its memory. `site` is the return address of
 * the program's call.
 *
 * Other locks may get the address of one that was destroyed, or freed: its node is dropped from the
 * graph. Our malloc reports each block that is freed (NEAR__PROBE_FREE); for other memory the
 * checker relies on the program to destroy the locks in it. */
#ifndef NEARCPU_LOCKS_LOCKDEP_H
#define NEARCPU_LOCKS_LOCKDEP_H

#include <nearcpu/mutex.h>

#include "kernel/kernel.h"
#include "locks/locks_state.h"

/* In a function that the program calls: the return address of that call. */
#define NEAR__SITE __builtin_return_address(0)

#define NEAR__LOCKDEP_HELD 31
#define NEAR__LOCKDEP_NODES 16384u
#define NEAR__LOCKDEP_EDGES 65536u
#define NEAR__LOCKDEP_HEADS NEAR__LOCKDEP_NODES
#define NEAR__LOCKDEP_THREADS 4096u
#define NEAR__LOCKDEP_STEPS 16 /* of a cycle that are reported */

struct near__lockdep_held {
	const void *lock, *site;
};

/* The locks that a thread holds. Only the thread itself uses it, except for `owner`. */
struct near__lockdep_thread {
	uint32_t owner; /* atomic; 0: the record is free */
	uint32_t count;
	struct near__lockdep_held held[NEAR__LOCKDEP_HELD];
};

struct near__lockdep_node {
	const void *lock; /* NULL: destroyed */
	uint32_t next;    /* of the same list; or of the free list */
	uint32_t out;     /* the first edge from here */
	/* By paths of one thread's edges alone, [0], and by others, [1]: */
	uint32_t seen[2]; /* the last search that found it, */
	uint32_t via[2];  /* by which edge, and from which of the two: edge * 2 + 1 is from [1] */
};

/* Of an edge that several threads made. No thread has this id. */
#define NEAR__LOCKDEP_SEVERAL 0u

struct near__lockdep_edge {
	uint32_t from, to;
	uint32_t next_out, next; /* from the same node; of the same hash */
	const void *from_site, *to_site;
	uint32_t owner; /* the thread that made it, or NEAR__LOCKDEP_SEVERAL */
	bool closes;    /* a cycle, which was reported: no search follows this edge */
};

/* The process has one, in a mapping of its own; indices begin at 1. */
struct near__lockdep {
	struct near_lock lock; /* guards all up to `report_lock` */
	uint32_t threads_used, threads_limit;
	uint32_t nodes_used, nodes_free, nodes_destroyed, edges_used, searches;
	struct near__lockdep_thread threads[NEAR__LOCKDEP_THREADS];
	struct near__lockdep_node nodes[NEAR__LOCKDEP_NODES];
	struct near__lockdep_edge edges[NEAR__LOCKDEP_EDGES];
	/* Each has the locks of some addresses; atomic. */
	uint32_t node_heads[NEAR__LOCKDEP_HEADS];
	uint32_t edge_heads[NEAR__LOCKDEP_EDGES / 4];
	uint32_t queue[2 * NEAR__LOCKDEP_NODES];
	struct near_lock report_lock; /* guards `text` and `used` */
	uint32_t used;
	char text[8192];
	uint32_t reported; /* enum near__lockdep_full bits; atomic */
};

/* What ran out; each is reported once. */
enum near__lockdep_full {
	NEAR__LOCKDEP_NO_MEMORY = 1,
	NEAR__LOCKDEP_MANY_THREADS = 2,
	NEAR__LOCKDEP_MANY_HELD = 4,
	NEAR__LOCKDEP_MANY_PAIRS = 8,
};

/* A pair; in a cycle, each step's wanted lock is the next step's held lock. */
struct near__lockdep_step {
	struct near__lockdep_held held, wanted;
	uint32_t owner;
};

struct near__lockdep_cycle {
	bool alone;      /* one thread made all of it, which cannot deadlock with itself */
	unsigned length; /* may be more than NEAR__LOCKDEP_STEPS */
	struct near__lockdep_step steps[NEAR__LOCKDEP_STEPS];
};

/* For a thread with NEAR__NO_OWNER: gives it a record, if the checker is on and has room. Else
 * gives it its id, and the inline paths. */
bool near__lockdep_begin(void);

static inline bool near__lockdep_is_on(void)
{
	return NEAR__UNLIKELY(near__more.owner == NEAR__NO_OWNER) &&
	       (near__locks_thread_peek()->lockdep || near__lockdep_begin());
}

void near__lockdep_check(const void *lock, const void *site);
void near__lockdep_push(const void *lock, const void *site);
void near__lockdep_pop(const void *lock);
/* Forgets the locks in n bytes from p on, which no thread uses any more. */
void near__lockdep_drop(const void *p, uint64_t n);

static inline void near__lockdep_before_lock(const void *lock, const void *site)
{
	if (near__lockdep_is_on())
		near__lockdep_check(lock, site);
}

static inline void near__lockdep_locked(const void *lock, const void *site)
{
	if (near__lockdep_is_on())
		near__lockdep_push(lock, site);
}

static inline void near__lockdep_unlocked(const void *lock)
{
	if (near__lockdep_is_on())
		near__lockdep_pop(lock);
}

/* The lock was destroyed: another lock may get its address. */
static inline void near__lockdep_destroyed(const void *lock)
{
	/* Acquire: pairs with the release in create (lockdep.c). */
	if (__atomic_load_n(&near__locks.lockdep, __ATOMIC_ACQUIRE))
		near__lockdep_drop(lock, 1);
}

/* ---- lockdep_graph.c ---- */

/* Whether the graph may have locks in n bytes from p on. They are no longer in use: all that was
 * done with them comes before this call, which therefore does not need `lock`. */
bool near__lockdep_may_have(const struct near__lockdep *d, const void *p, uint64_t n);

/* ---- the same; requires `lock` ---- */

void near__lockdep_drop_nodes(struct near__lockdep *d, const void *p, uint64_t n);

/* Adds the pair, or the thread to a known one; *full is set if there is no room. True: that closes
 * *cycle, which was not reported yet. */
bool near__lockdep_add(struct near__lockdep *d, const struct near__lockdep_step *pair,
		       struct near__lockdep_cycle *cycle, bool *full);

/* ---- lockdep_report.c; takes `report_lock` ---- */

void near__lockdep_report(struct near__lockdep *d, const struct near__lockdep_cycle *cycle);
void near__lockdep_report_freed(struct near__lockdep *d, const struct near__lockdep_held *held);

#endif
