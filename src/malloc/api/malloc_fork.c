/* SPDX-License-Identifier: MIT */
/* The fork handlers: all locks are held while the process is copied, so that the data that they
 * guard is consistent in the child; base/fork.h has the exceptions. The caches of the slots need
 * none: a sequence that fork interrupts has committed or has not. */
#include "base/fork.h"
#include "malloc/api/fast.h"
#include "malloc/cache/background.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"
#include "malloc/diagnostics/hooks.h"
#include "malloc/diagnostics/malloc_stats.h"
#include "malloc/pages/pages.h"

static struct near__fork_turn turn;
static bool found_held; /* in the child, which has one thread */

static void heap_check_held(struct near_lock *l)
{
	found_held |= l->word != 0;
}

/* In the order in which they nest. Nothing if the heap has not begun: its locks are not in use, and
 * some do not exist yet. */
static void for_begun(near__fork_step *step)
{
	if (!near__heap_has_begun())
		return;
	near__publish_fork(step);
	near__check_fork(step);
	near__profile_fork(step);
	near__drain_fork(step);
	near__thread_cache_fork(step);
	near__central_fork(step);
	near__purge_fork(step);
	near__pages_fork(step);
	near__meta_fork(step);
}

/* The lock of near__heap_begin is taken first and released last: a heap does not begin in between,
 * so that the same locks are released. */
static void for_all_down(near__fork_step *step)
{
	step(&near__heap.beginning);
	for_begun(step);
}

static void for_all_up(near__fork_step *step)
{
	for_begun(step);
	step(&near__heap.beginning);
}

NEAR__FORK_HANDLERS(heap, &turn, for_all_down, for_all_up, near__fork_nothing)

/* The statistics take locks. If a signal handler forks, the code that it interrupted may hold one
 * of them; such a child includes its parent's counts. */
static void heap_begins_child(void)
{
	heap_in_child();
	if (!near__heap_has_begun())
		return;
	near__background_fork_child();
	near__thread_cache_fork_child();
	near__profile_fork_child();
	found_held = false;
	for_all_up(heap_check_held);
	if (!found_held)
		near__stats_fork_child();
	near__publish_fork_child(!found_held);
}

/* A constructor, so that handlers that the program registers, which may allocate, run while these
 * hold no lock: later in a child, and before these prepare. An allocation in an earlier constructor
 * registers them. */
__attribute__((constructor)) void near__fork_watch(void)
{
	static uint32_t watched;

	near__fork_register(&watched, heap_before_fork, heap_after_fork, heap_begins_child);
}
