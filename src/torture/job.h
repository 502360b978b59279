/* SPDX-License-Identifier: MIT */
/* job: what near_torture() does, with more parameters for the library's own tests. */
#ifndef NEARCPU_TORTURE_JOB_H
#define NEARCPU_TORTURE_JOB_H

#include <nearcpu/torture.h>

#include "torture/trap.h"

/* What runs while the operation is stopped. */
enum schedule {
	ALONE,      /* nothing */
	AGAIN,      /* another abort, each time it reaches the point */
	IN_HANDLER, /* a competing operation in the signal handler, on the operation's thread */
	ON_THREAD,  /* one on another thread on the same CPU; the handler waits for it */
	MOVED,      /* the thread moves to another CPU */
	TAKEN,      /* the thread's registration ends; see taken.c */
	SCHEDULES
};
#define EVERY_SCHEDULE ((1u << SCHEDULES) - 1)

/* The outcomes of the two orders of complete operations. */
struct orders {
	bool known;
	uint64_t run_first, interferer_first;
};

struct job {
	const struct near_torture *t;
	unsigned schedules; /* a bit mask: 1u << ALONE ... */
	/* If the sequences' instructions are known: whether the operation may run this one. Each
	 * that it does not run takes some runs to see that. */
	bool (*may_run)(void *arg, unsigned seq);
	bool before; /* also stop between a function's entry and its sequence */
	/* An operation that is aborted in its first sequence must take effect after the competing
	 * one. Not set where the operation decides something before that sequence. */
	bool strict;
	bool (*is_live)(void);     /* optional: whether the kernel must abort this thread */
	void (*enter)(void *arg);  /* optional: prepares the interferer's thread, after setup */
	const struct place *place; /* where it runs */
	bool slot_moves_along;     /* a moved thread has kept its slot at least once */
	struct orders *orders;     /* two for each competing operation, and two for none */
	struct near_torture_result *out; /* what happened */
};

/* Requires an open trap. Sets place and orders. Returns 0, or a negative errno as near_torture()
 * does. */
int near__job_run(struct job *job);

/* TAKEN: ends the registration of a thread before the job's operation, and at each instruction of
 * each sequence that the operation is known to run. Does nothing where the C library did not
 * register this thread. Requires that the interferer's thread is not running. Returns 0 or a
 * negative errno. */
int near__taken_try_all(struct job *job);

#endif
