/* SPDX-License-Identifier: MIT */
/* job: what near_torture() does, with a few more wishes for the library's own tests. */
#ifndef NEARCPU_TORTURE_JOB_H
#define NEARCPU_TORTURE_JOB_H

#include <nearcpu/torture.h>

#include "trap.h"

/* What happens where the operation is stopped. */
enum company {
	ALONE,      /* nothing */
	AGAIN,      /* the same again, whenever it comes there */
	IN_HANDLER, /* a rival in the signal handler, on the thread of the operation */
	ON_THREAD,  /* a rival on another thread on the same CPU, for which the handler waits */
	MOVED,      /* the thread moves to another CPU */
	COMPANIES
};
#define EVERY_COMPANY ((1u << COMPANIES) - 1)

/* The outcomes of the two orders of complete operations. */
struct orders {
	bool known;
	uint64_t run_first, rival_first;
};

struct job {
	const struct near_torture *t;
	unsigned companies; /* a bit each, 1u << ALONE ... */
	bool learnt;        /* the sequences are; they need not be learnt */
	bool before;        /* stop it between the entry of a sequence's function and it, too */
	/* An operation that was aborted in its first sequence came after the rival. Not so where it
	 * decides something before. */
	bool strict;
	bool (*is_live)(void);           /* optional: whether the kernel must abort this thread */
	void (*enter)(void *arg);        /* optional: prepares the rivals' thread, after setup */
	const struct place *place;       /* where it runs */
	bool goes_along;                 /* seen: a slot that went along with a moved thread */
	struct orders *orders;           /* two for each rival, and two for none */
	struct near_torture_result *out; /* what happened */
};

/* Requires an open trap. Sets place and orders. Returns 0, or a negative errno as near_torture()
 * does. */
int near__job_run(struct job *job);

#endif
