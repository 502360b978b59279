/* SPDX-License-Identifier: MIT */
/* Runs a plan: the handler of SIGTRAP, and what it does at each breakpoint. */
#define _GNU_SOURCE
#include "torture/trap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "torture/breakpoints.h"
#include "torture/find.h"

static unsigned opened;
static struct found found;
static struct sigaction action_before;
static struct trap_plan *plan; /* while one runs */

unsigned near__trap_count(void)
{
	return near__trap.count;
}

struct trap_seq *near__trap_seq(unsigned i)
{
	return &near__trap.seqs[i];
}

/* ---- the handler of a plan ---- */

static void check_limit(void)
{
	if (!plan->limit || plan->aborts_here + plan->aborts <= plan->limit)
		return;
	near__break_unplant_all();
	plan->endless = true;
}

/* The kernel did not abort the sequence. A breakpoint at its last instruction shows whether that is
 * a fault: a thread that is not live leaves the sequence before it. */
static void watch_commit(void)
{
	const struct trap_seq *s = &near__trap.seqs[plan->seq];

	if (plan->point + 1 == s->points)
		return;
	if (plan->point + 2 == s->points)
		plan->unprotected = true;
	else
		near__break_plant(near__trap.count, s->point[s->points - 2]);
}

static void rseq_unregister(void)
{
	plan->on_stop(plan->arg);
	plan->reached = true;
	near__break_plant_commits();
}

static void on_stop(bool aborted)
{
	near__break_unplant_all();
	plan->reached = true;
	plan->aborted = aborted;
	near__trap.seqs[plan->seq].trapped[plan->point]++;
	if (plan->unregisters)
		rseq_unregister();
	else if (plan->on_stop)
		plan->on_stop(plan->arg);
	if (!aborted && !plan->unregisters)
		watch_commit();
}

static void on_abort_here(void)
{
	if (plan->reached &&
	    !plan->again) { /* at watch_commit's breakpoint: a later attempt is protected */
		near__break_unplant_all();
		return;
	}
	plan->aborts_here++;
	if (plan->again)
		check_limit();
	else
		on_stop(true);
	plan->reached = plan->aborted = true;
}

static void on_abort(unsigned seq)
{
	if (plan->before) { /* a later attempt of the plan's sequence, at its start */
		plan->aborts_here++;
		check_limit();
	} else if (seq == plan->seq) {
		on_abort_here();
	} else {
		plan->aborts++;
		if (plan->others == TRAP_ABORT_ONCE)
			near__break_unplant(seq);
		else
			check_limit();
	}
}

/* Handles a stop outside of sequences. */
static void on_before(void)
{
	near__break_unplant(near__trap.count);
	plan->reached = true;
	if (plan->on_stop)
		plan->on_stop(plan->arg);
	if (plan->again)
		near__break_plant(plan->seq, near__trap.seqs[plan->seq].start);
}

static void on_plan(ucontext_t *c)
{
	unsigned seq = near__break_aborted(c), hit;

	if (seq < near__trap.count) {
		on_abort(seq);
		return;
	}
	hit = near__break_hit(c);
	if (plan->unregisters && plan->reached) { /* at a commit */
		near__break_unplant_all();
		plan->unprotected = true;
	} else if (hit < near__trap.count) {
		near__break_unplant(hit); /* the thread is not live: it continues */
	} else if (plan->before) {
		on_before();
	} else if (plan->reached) {
		near__break_unplant_all();
		plan->unprotected = true;
	} else {
		on_stop(false);
	}
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	if (!near__trap.handle)
		near__break_die("SIGTRAP out of place\n");
	near__trap.handle(context);
}

/* ---- open, run, close ---- */

static int open_all(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	int r = near__find(&found);

	if (r)
		return r;
	near__trap.breakpoints = calloc((size_t)found.count + 1, sizeof(*near__trap.breakpoints));
	if (!near__trap.breakpoints)
		return -ENOMEM;
	near__trap.seqs = found.seqs;
	near__trap.count = found.count;
	r = near__text_open(&found);
	if (r)
		return r;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGTRAP, &action, &action_before)) {
		near__text_close(&found);
		return -errno;
	}
	return 0;
}

static void free_all(void)
{
	free(near__trap.breakpoints);
	near__find_end(&found);
	near__trap = (struct trap){0};
}

int near__trap_open(void)
{
	int r;

	if (!NEAR__HAS_SEQ)
		return -ENOSYS;
	if (!opened) {
		r = open_all();
		if (r) {
			free_all();
			return r;
		}
	}
	opened++;
	return (int)near__trap.count;
}

void near__trap_close(void)
{
	if (--opened)
		return;
	sigaction(SIGTRAP, &action_before, NULL);
	near__text_close(&found);
	free_all();
}

static bool is_other(unsigned i)
{
	return i != plan->seq;
}

void near__trap_run(struct trap_plan *p, void (*run)(void *arg), void *arg)
{
	p->reached = p->aborted = p->unprotected = p->endless = false;
	p->aborts = p->aborts_here = 0;
	plan = p;
	if (p->others != TRAP_LET_OTHERS)
		near__break_plant_starts(is_other);
	if (p->before)
		near__break_plant(near__trap.count, p->before);
	else if (p->seq < near__trap.count)
		near__break_plant(near__trap.count, near__trap.seqs[p->seq].point[p->point]);
	else if (p->unregisters)
		rseq_unregister();
	near__trap.handle = on_plan;
	run(arg);
	near__trap.handle = NULL;
	near__break_unplant_all();
}
