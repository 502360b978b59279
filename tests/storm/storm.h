/* SPDX-License-Identifier: MIT */
/* storm: every structure used by every kind of thread, handler and child together, while threads
 * are moved between CPUs. What each one did is written down; in the end the sums must agree. */
#ifndef NEARCPU_TESTS_STORM_H
#define NEARCPU_TESTS_STORM_H

#include <nearcpu/counter.h>
#include <nearcpu/refcount.h>
#include <nearcpu/shared.h>
#include <nearcpu/stack.h>

#include <time.h>

#include "unit.h"

#define STORM_WORKERS 46 /* at most, from start to end */
#define STORM_CHURN 8    /* at a time; they come and go */
#define STORM_VFORKERS 2
#define STORM_THREADS (STORM_WORKERS + STORM_CHURN + STORM_VFORKERS)
#define STORM_ITEMS 512
#define STORM_HANDS 4 /* items that a thread may keep */

/* A node is on the stack, or a thread's: `owner` is 0 or that thread's number plus one. It is set
 * back before the push, and taken after the pop; finding it taken means that the node was popped
 * twice. */
struct storm_item {
	struct near_stack_node link;
	uint32_t owner;
};

/* What a thread did. Adds of 1 are counted before and after, so that a forked child, which sees its
 * parent's threads stopped anywhere, knows between which bounds the sum must be. */
struct storm_tally {
	volatile uint64_t started, done; /* adds of 1 to `count` */
	volatile uint64_t handler_started, handler_done;
	volatile int64_t added, handler_added; /* to `reset` */
	volatile int64_t shared, handler_shared;
	volatile uint64_t wrong; /* what must not be: a node popped twice, a count that is off */
};

struct storm_thread {
	unsigned number;
	pthread_t thread;
	pid_t tid; /* atomic: for the mover */
	uint64_t random;
	struct storm_item *hands[STORM_HANDS];
	struct storm_item *reserve; /* for the handler to push */
	unsigned refs;
	volatile uint64_t signals;
};

extern struct storm {
	struct near_counter count, reset, fixed;
	struct near_stack stack;
	struct near_refcount refs;
	struct near_shared shared;
	struct storm_item items[STORM_ITEMS];
	struct storm_tally tallies[STORM_THREADS];
	struct storm_thread threads[STORM_THREADS];
	int64_t taken;        /* by resets */
	int64_t *of_children; /* what forked children added to `shared`; shared with them */
	unsigned released;
	unsigned churned, forked, vforked, moved, drained, killed;
	unsigned workers;
	bool stop;
} storm;

void storm_begin(unsigned workers);
/* Ends what storm_begin began; asserts that the sums agree. Requires that only this thread is
 * left. */
void storm_end(void);

/* The steps of a worker; `self` is the calling thread's. */
void storm_step(struct storm_thread *self);
void storm_let_go(struct storm_thread *self);
/* What a handler may do over any of the other steps. */
void storm_signal(struct storm_thread *self);

/* In a forked child: asserts by CHECK what can be known, and uses everything. */
void storm_check_child(void);

/* Milliseconds of the monotonic clock. */
static inline uint64_t storm_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Moves *item between hands and stack. */
bool storm_claim(struct storm_item *item, unsigned number);
void storm_push(struct storm_item *item);

static inline struct storm_tally *storm_tally(const struct storm_thread *self)
{
	return &storm.tallies[self->number];
}

static inline struct storm_item *storm_item_of(struct near_stack_node *node)
{
	return (struct storm_item *)(void *)node;
}

#endif
