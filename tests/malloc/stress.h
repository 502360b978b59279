/* SPDX-License-Identifier: MIT */
/* stress: concurrently all that programs do with an allocator: blocks of any size whose content is
 * checked, passed from thread to thread and freed anywhere, while threads begin and end, are moved
 * and signalled, processes fork and vfork, and all caches are emptied. */
#ifndef NEARCPU_TESTS_STRESS_H
#define NEARCPU_TESTS_STRESS_H

#include "blocks.h"

#define STRESS_WORKERS 12
#define STRESS_CHURN 6 /* threads at a time that come and go */
#define STRESS_HELD 96
#define STRESS_SHELVES 64

struct stress_worker {
	struct holder holder;
	struct block blocks[STRESS_HELD];
	pthread_t thread;
	pid_t tid; /* atomic: for the threads that move and signal it */
	uint64_t steps;
};

extern struct stress {
	struct stress_worker workers[STRESS_WORKERS], churn[STRESS_CHURN];
	struct shelf shelves[STRESS_SHELVES];
	unsigned n_workers;
	bool stop, slow;
	/* How often. Signals are counted by their handler. */
	unsigned churned, forked, vforked, trimmed, moved, sent, signals;
} stress;

/* Runs all of it for `ms`. */
void stress_run(unsigned workers, unsigned ms);

/* Bodies of threads, which return when `stop` is set. */
void *stress_work(void *worker);
void *stress_churn(void *unused);  /* starts and joins threads */
void *stress_fork(void *unused);   /* children free, allocate, trim, start threads */
void *stress_vfork(void *worker);  /* children work on the blocks of this thread */
void *stress_trim(void *unused);   /* empties all caches */
void *stress_move(void *unused);   /* moves workers between CPUs */
void *stress_signal(void *unused); /* sends them signals */

void stress_set_up(struct stress_worker *w, uint64_t seed);
void stress_catch_signals(void);
/* What a program does that was started by a child of a vfork. */
#define STRESS_NOTHING "--nothing"

#endif
