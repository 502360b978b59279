/* SPDX-License-Identifier: MIT */
/* fork: all locks are held while the process is copied, so that the child finds what they guard
 * whole.
 * The caches of the slots need none: a sequence that fork interrupts has happened or has not. */
#define _GNU_SOURCE
#include <pthread.h>

#include "background.h"
#include "hooks.h"
#include "stats.h"

static void lock(struct near_lock *l)
{
	near_lock_lock(l);
}

static void unlock(struct near_lock *l)
{
	near_lock_unlock(l);
}

static void reset(struct near_lock *l)
{
	near_lock_reset_in_child(l);
}

/* In the order in which they nest. */
static void prepare(void)
{
	near__check_fork(lock);
	near__profile_fork(lock);
	near__drain_fork(lock);
	near__local_fork(lock);
	near__central_fork(lock);
	near__pages_fork(lock);
	near__meta_fork(lock);
}

static void release(near__fork_step *step)
{
	near__meta_fork(step);
	near__pages_fork(step);
	near__central_fork(step);
	near__local_fork(step);
	near__profile_fork(step);
	near__check_fork(step);
	near__drain_fork(step);
}

static void in_parent(void)
{
	release(unlock);
}

static void in_child(void)
{
	release(reset);
	near__profile_fork_child();
	near__background_fork_child();
	near__stats_fork_child();
}

void near__fork_watch(void)
{
	pthread_atfork(prepare, in_parent, in_child);
}
