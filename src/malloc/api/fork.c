/* SPDX-License-Identifier: MIT */
/* The fork handlers: all locks are held while the process is copied, so that the data that they
 * guard is consistent in the child; ground/fork.h has the exceptions. The caches of the slots need
 * none: a sequence that fork interrupts has committed or has not. */
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

static void check_held(struct near_lock *l)
{
	found_held |= l->word != 0;
}

/* In the order in which they nest. */
static void for_all(near__fork_step *step)
{
	near__check_fork(step);
	near__profile_fork(step);
	near__drain_fork(step);
	near__thread_cache_fork(step);
	near__central_fork(step);
	near__purge_fork(step);
	near__pages_fork(step);
	near__meta_fork(step);
}

static void prepare(void)
{
	near__fork_prepare(&depth, for_all);
}

static void in_parent(void)
{
	near__fork_in_parent(&depth, for_all);
}

/* The statistics take locks. If a signal handler forks, the code that it interrupted may hold one
 * of them; such a child includes its parent's counts. */
static void in_child(void)
{
	near__fork_in_child(&depth, for_all);
	near__background_fork_child();
	near__thread_cache_fork_child();
	near__profile_fork_child();
	found_held = false;
	for_all(check_held);
	if (!found_held)
		near__stats_fork_child();
}

void near__fork_watch(void)
{
	pthread_atfork(prepare, in_parent, in_child);
}
