/* SPDX-License-Identifier: MIT */
/* fork: all locks are held while the process is copied, so that the child finds what they guard
 * whole; src/fork.h has the exceptions.
 * The caches of the slots need none: a sequence that fork interrupts has happened or has not. */
#define _GNU_SOURCE
#include <pthread.h>

#include "ground/fork.h"
#include "malloc/cache/background.h"
#include "malloc/cache/cache.h"
#include "malloc/central/central.h"
#include "malloc/observe/hooks.h"
#include "malloc/observe/stats.h"
#include "malloc/pages/pages.h"

static __thread uint32_t depth __attribute__((tls_model("initial-exec")));
static bool found_held; /* in the child, which has one thread */

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

static void look(struct near_lock *l)
{
	found_held |= l->word != 0;
}

/* In the order in which they nest. */
static void lock_all(void)
{
	near__check_fork(lock);
	near__profile_fork(lock);
	near__drain_fork(lock);
	near__thread_cache_fork(lock);
	near__central_fork(lock);
	near__pages_fork(lock);
	near__meta_fork(lock);
}

static void for_all(near__fork_step *step)
{
	near__meta_fork(step);
	near__pages_fork(step);
	near__central_fork(step);
	near__thread_cache_fork(step);
	near__profile_fork(step);
	near__check_fork(step);
	near__drain_fork(step);
}

static void unlock_all(void)
{
	for_all(unlock);
}

static void reset_all(void)
{
	for_all(reset);
}

static void prepare(void)
{
	near__fork_prepare(&depth, lock_all);
}

static void in_parent(void)
{
	near__fork_in_parent(&depth, unlock_all);
}

/* The statistics take locks, which the code may hold that a signal handler interrupted to fork.
 * Such a child counts from its parent's beginning. */
static void in_child(void)
{
	near__fork_in_child(&depth, reset_all);
	near__background_fork_child();
	near__profile_fork_child();
	found_held = false;
	for_all(look);
	if (!found_held)
		near__stats_fork_child();
}

void near__fork_watch(void)
{
	pthread_atfork(prepare, in_parent, in_child);
}
