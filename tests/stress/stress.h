/* SPDX-License-Identifier: MIT */
/* stress: every structure used by every kind of thread, handler and child together, while threads
 * are moved between CPUs. What each one did is written down; in the end the sums must agree. */
#ifndef NEARCPU_TESTS_STRESS_STRESS_H
#define NEARCPU_TESTS_STRESS_STRESS_H

#include <nearcpu/counter.h>
#include <nearcpu/histogram.h>
#include <nearcpu/refcount.h>
#include <nearcpu/shared_counters.h>
#include <nearcpu/stack.h>

#include <time.h>

#include "unit.h"

#define STRESS_WORKERS 46 /* at most, from start to end */
#define STRESS_CHURN 8    /* at a time; they come and go */
#define STRESS_VFORKERS 2
#define STRESS_THREADS (STRESS_WORKERS + STRESS_CHURN + STRESS_VFORKERS)
#define STRESS_ITEMS 512
#define STRESS_VALUE 1000
#define STRESS_HANDS 4 /* items that a thread may keep */

/* A node is on the stack, or a thread's: `owner` is 0 or that thread's number plus one. It is set
 * back before the push, and taken after the pop; finding it taken means that the node was popped
 * twice. */
struct stress_item {
	struct near_stack_node link;
	uint32_t owner;
};

/* What a thread did. Adds of 1 are counted before and after, so that a forked child, which sees its
 * parent's threads stopped anywhere, knows between which bounds the sum must be. */
struct stress_tally {
	volatile uint64_t started, done; /* adds of 1 to `count` */
	volatile uint64_t handler_started, handler_done;
	volatile int64_t added, handler_added; /* to `reset` */
	volatile int64_t shared, handler_shared;
	volatile uint64_t recorded, handler_recorded; /* values of STRESS_VALUE */
	volatile uint64_t wrong; /* what must not be: a node popped twice, a count that is off */
};

struct stress_thread {
	unsigned number;
	pthread_t thread;
	pid_t tid; /* atomic: for the mover */
	uint64_t random;
	struct stress_item *hands[STRESS_HANDS];
	struct stress_item *reserve; /* for the handler to push */
	unsigned refs;
	volatile uint64_t signals;
};

extern struct stress {
	struct near_counter count, reset, fixed;
	struct near_stack stack;
	struct near_refcount refs;
	struct near_shared_counters shared;
	struct near_histogram histogram; /* with the exact sum */
	struct stress_item items[STRESS_ITEMS];
	struct stress_tally tallies[STRESS_THREADS];
	struct stress_thread threads[STRESS_THREADS];
	int64_t taken;                    /* by resets */
	uint64_t taken_values, taken_sum; /* of the histogram */
	int64_t *of_children; /* what forked children added to `shared`; shared with them */
	unsigned released;
	unsigned churned, forked, vforked, moved, drained, killed;
	unsigned workers;
	bool stop;
} stress;

void stress_begin(unsigned workers);
/* Ends what stress_begin began; asserts that the sums agree. Requires that only this thread is
 * left. */
void stress_end(void);

/* The steps of a worker; `self` is the calling thread's. */
void stress_step(struct stress_thread *self);
void stress_put_all(struct stress_thread *self);
/* What a handler may do over any of the other steps. */
void stress_signal(struct stress_thread *self);

/* In a forked child: asserts by CHECK what can be known, and uses everything. */
void stress_check_child(void);

/* Milliseconds of the monotonic clock. */
static inline uint64_t stress_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline bool stress_is_over(void)
{
	return __atomic_load_n(&stress.stop, __ATOMIC_RELAXED);
}

/* Up to `ns` nanoseconds, by chance. */
static inline void stress_rest(uint64_t *random, unsigned ns)
{
	struct timespec t = {0, unit_random(random) % ns};

	nanosleep(&t, NULL);
}

/* Moves *item between hands and stack. */
bool stress_claim(struct stress_item *item, unsigned number);
void stress_push(struct stress_item *item);

static inline struct stress_tally *stress_tally(const struct stress_thread *self)
{
	return &stress.tallies[self->number];
}

static inline struct stress_item *stress_item_of(struct near_stack_node *node)
{
	return (struct stress_item *)(void *)node;
}

/* ---- what runs concurrently with the workers: bodies of threads, until stress.stop is set ---- */

/* Of a struct stress_thread. The first ones also get a signal every 100 us. */
void *stress_worker(void *self);
void *stress_churner(void *unused); /* creates and joins threads */
void *stress_vforker(void *self);   /* children of vfork take the steps */
void *stress_forker(void *unused);
void *stress_mover(void *unused);  /* moves workers between CPUs */
void *stress_closer(void *unused); /* drains, kills, revives, resets */
void *stress_reader(void *unused);

/* The handler of the timers' signal. */
void stress_catch_signals(void);

/* ---- stress tests of one structure, for that many milliseconds ---- */

/* Kills and revives a count; asserts that each kill led to one release. Returns how many. */
unsigned release_stress(unsigned ms);

/* Processes add to one region, with rseq and without; one after the other is killed. Asserts that
 * the region holds what they added. Returns how many were killed. */
unsigned killed_stress(unsigned ms);

/* What such a process runs: the program itself, started again with these arguments. */
#define KILLED_ADDER "--add"
int killed_adder(char **fds);

#endif
