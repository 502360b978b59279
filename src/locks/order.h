/* SPDX-License-Identifier: MIT */
/* order: the checker of lock order, NEAR_CONF=lock_check:1.
 *
 * Who takes a lock while holding others makes a pair with each: held before wanted. Pairs are kept
 * as a graph; one that closes a circle is told before the thread waits, whether or not it would
 * have to wait this time.
 *
 * A thread that is checked has no number in near__owner, so that near_mutex's inline paths fail
 * for it, and every lock and unlock comes to the slow paths, which call what stands here. Where the
 * checker is off, those cost the slow paths one comparison, and the inline ones nothing.
 *
 * A lock that waits calls before_lock, then, when it has the lock, locked. One that does not wait
 * (try_lock) calls locked alone: it makes no pair as the later lock, but does as the earlier one.
 * A lock is a name here: its memory is never looked at. `site` is where the program called. */
#ifndef NEARCPU_ORDER_H
#define NEARCPU_ORDER_H

#include <nearcpu/mutex.h>

#include "kernel/internal.h"
#include "parking/lot.h"

/* Where the program called, in a function that it calls. */
#define NEAR__SITE __builtin_return_address(0)

#define NEAR__ORDER_HELD 31
#define NEAR__ORDER_NODES 16384u
#define NEAR__ORDER_EDGES 65536u
#define NEAR__ORDER_THREADS 4096u
#define NEAR__ORDER_STEPS 16 /* of a circle that are told */

struct near__order_held {
	const void *lock, *site;
};

/* What a thread holds. Its own business, but for `owner`. */
struct near__order_thread {
	uint32_t owner; /* 0: nobody's; atomic */
	uint32_t count;
	struct near__order_held held[NEAR__ORDER_HELD];
};

struct near__order_node {
	const void *lock; /* NULL: forgotten */
	uint32_t next;    /* of the same hash; or free */
	uint32_t out;     /* the first edge from here */
	uint32_t seen;    /* by which search */
	uint32_t via;     /* by which edge */
};

struct near__order_edge {
	uint32_t from, to;
	uint32_t next_out, next; /* from the same node; of the same hash */
	const void *from_site, *to_site;
	uint32_t owner;
	bool closes; /* a circle, which was told: no search goes this way */
};

/* One for each process, in memory of its own; indices begin at 1. */
struct near__order {
	struct near_lock lock; /* guards all up to `text` */
	uint32_t threads_used, threads_limit;
	uint32_t nodes_used, nodes_free, nodes_forgotten, edges_used, searches;
	struct near__order_thread threads[NEAR__ORDER_THREADS];
	struct near__order_node nodes[NEAR__ORDER_NODES];
	struct near__order_edge edges[NEAR__ORDER_EDGES];
	uint32_t node_heads[NEAR__ORDER_NODES / 4], edge_heads[NEAR__ORDER_EDGES / 4];
	uint32_t queue[NEAR__ORDER_NODES];
	struct near_lock telling; /* guards `text` and `used` */
	uint32_t used;
	char text[8192];
	uint32_t said; /* enum near__order_full bits; atomic */
};

enum near__order_full {
	NEAR__ORDER_NO_MEMORY = 1,
	NEAR__ORDER_MANY_THREADS = 2,
	NEAR__ORDER_MANY_HELD = 4,
	NEAR__ORDER_MANY_PAIRS = 8,
};

/* A circle: each step's wanted lock is the next one's held one. */
struct near__order_step {
	struct near__order_held held, wanted;
	uint32_t owner;
};

struct near__order_circle {
	unsigned length; /* may be more than NEAR__ORDER_STEPS */
	struct near__order_step steps[NEAR__ORDER_STEPS];
};

/* This thread's, once it is checked. */
extern NEAR_API __thread struct near__order_thread *near__order_self
	__attribute__((tls_model("initial-exec")));

/* By a thread without a number: makes it one that is checked, if that is asked for and there is
 * room; else gives it its number. */
bool near__order_begin(void);

static inline bool near__order_is_on(void)
{
	return NEAR__UNLIKELY(near__owner == NEAR__NO_OWNER) &&
	       (near__order_self || near__order_begin());
}

void near__order_check(const void *lock, const void *site);
void near__order_push(const void *lock, const void *site);
void near__order_pop(const void *lock);
void near__order_drop(const void *lock);

static inline void near__order_before_lock(const void *lock, const void *site)
{
	if (near__order_is_on())
		near__order_check(lock, site);
}

static inline void near__order_locked(const void *lock, const void *site)
{
	if (near__order_is_on())
		near__order_push(lock, site);
}

static inline void near__order_unlocked(const void *lock)
{
	if (near__order_is_on())
		near__order_pop(lock);
}

/* The lock was destroyed: another one may come to stand there. */
static inline void near__order_forget(const void *lock)
{
	/* Acquire: pairs with the release of who made it. */
	if (__atomic_load_n(&near__lot.order, __ATOMIC_ACQUIRE))
		near__order_drop(lock);
}

/* In the child of a fork. */
void near__order_forked(void);

/* ---- between the checker's files ---- */

/* Under the lock. Adds the pair, unless it is known or there is no room: then *full is set. True:
 * it closes a circle, which is told by *circle, and was not known. */
bool near__order_add(struct near__order *o, const struct near__order_step *pair,
		     struct near__order_circle *circle, bool *full);
void near__order_drop_node(struct near__order *o, const void *lock);

/* Under no lock but `telling`. */
void near__order_tell(struct near__order *o, const struct near__order_circle *circle);

#endif
