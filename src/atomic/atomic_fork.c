/* SPDX-License-Identifier: MIT */
/* The fork handlers: they hold all locks while the process is copied, so that the child finds no
 * object partly changed.
 *
 * Other code of this thread that runs during the fork (further fork handlers, signal handlers) and
 * uses an object finds a lock that its own thread holds, and proceeds as in handler.c. Locks that
 * the thread held before, if a signal handler forks, stay with the code that took them; also in the
 * child, which has the same thread pointer.
 *
 * A fork within a fork, by a handler: `level` is not 0 from the time when all locks are held until
 * the first of them is released, and while a lock shows the mark. So the inner fork either finds
 * that the outer one holds all locks, and does nothing; or it takes those that are missing, marks
 * these, and releases only these.
 *
 * The child: `waiters` still counts threads that the child does not have. An unlocker then loads
 * `waking` and, if it is 0, makes a system call that stores 1. No thread depends on this: the
 * kernel wakes only sleepers of the child, and each of those cleared `waking` before it checked the
 * word. If the handler of a sleeping thread forks, the thread is still counted in the child, where
 * the lock has been released: it finds `waking` 1, checks the word, and decrements `waiters`. */
#define _GNU_SOURCE
#include <pthread.h>

#include "atomic/locks.h"
#include "atomic/section_signals.h"
#include "base/fork.h"

/* The section that the locks of a fork show. */
static struct near__section mark = {.step = NEAR__DONE};
static __thread int level __attribute__((tls_model("initial-exec")));
static __thread bool has_streams __attribute__((tls_model("initial-exec")));

/* The list of streams is locked first, since the program's functions for a stream (fopencookie) may
 * use objects: src/base/fork.h. */
static void locks_prepare(void)
{
	bool streams = !level && !near__is_one_thread();
	struct near__locks all, taken;
	struct near__blocked b;

	if (streams)
		near__streams_lock();
	b = near__block_signals();

	if (level) {
		level++;
	} else {
		all.count = NEAR__ATOMIC_LOCKS;
		for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++)
			all.list[i] = (uint8_t)i;
		near__take_missing(&all, near__held_by_me(), &b, true, &taken);
		level = 1;
		has_streams = streams;
		near__publish(&taken, &mark);
	}
	near__unblock_signals(&b);
}

static void find_marked(struct near__locks *out)
{
	unsigned long mine = near__held_by_me();

	out->count = 0;
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++) {
		const struct near__atomic_lock *l = &near__atomic_locks.locks[i];

		if (near__holds(l, mine) && l->section == &mark)
			out->list[out->count++] = (uint8_t)i;
	}
}

/* Returns whether the caller must unlock the list of streams, or reset it. */
static bool locks_finish(void)
{
	struct near__locks marked;
	bool streams = has_streams;

	if (level > 1) {
		level--;
		return false;
	}
	find_marked(&marked);
	near__publish(&marked, NULL);
	has_streams = false;
	level = 0;
	near__release_first(&marked, marked.count, true);
	return streams;
}

static void in_parent(void)
{
	if (locks_finish())
		near__streams_unlock();
}

static void in_child(void)
{
	if (locks_finish())
		near__streams_reset_in_child();
}

/* Runs before the program's constructors, so that the program's handlers are registered later: the
 * last registered `locks_prepare` runs first, and may wait for a mutex whose owner uses an
 * object. */
__attribute__((constructor(101))) static void locks_begin(void)
{
	/* If there is no memory for this, a child must not use objects that other threads were
	 * changing. */
	pthread_atfork(locks_prepare, in_parent, in_child);
}
