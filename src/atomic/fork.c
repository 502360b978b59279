/* SPDX-License-Identifier: MIT */
/* fork: all locks are held while the process is copied, so that the child finds no object half
 * changed.
 *
 * What else runs then in this thread (other fork handlers, signal handlers) and uses an object
 * meets locks that its own thread holds, and goes on as help.c has it. Locks that the thread held
 * before, as a signal handler forks, stay with the code that took them; in the child, too, which
 * has the same thread pointer.
 *
 * A fork within a fork, by a handler: `level` is not 0 from when all locks are held until the first
 * of them is let go of, and while a lock shows the mark. So the inner fork either finds that the
 * outer one holds all, and does nothing; or it takes what is missing, marks that, and lets go of
 * just that.
 *
 * The child: waiters of threads that it does not have stay counted. They cost its unlockers a look
 * at `waking`, and where that is 0 a system call that makes it 1. Nobody relies on them, as the
 * kernel wakes the child's own sleepers alone, and each of those made `waking` 0 before it looked.
 * This thread, if its handler forked out of a sleep, is counted still, and in the child the lock
 * was let go of since: it finds `waking` 1, looks again, and subtracts itself. */
#define _GNU_SOURCE
#include <pthread.h>

#include "ground/fork.h"
#include "locks.h"
#include "signals.h"

/* Whose locks. */
static struct near__section mark = {.step = NEAR__NOTHING};
static __thread int level __attribute__((tls_model("initial-exec")));
static __thread bool has_streams __attribute__((tls_model("initial-exec")));

/* A stream's functions that the program gave (fopencookie) may use objects, hence the list of
 * streams comes first: src/ground/fork.h. */
static void prepare(void)
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
		near__show(&taken, &mark);
	}
	near__unblock_signals(&b);
}

static void find_marked(struct near__locks *out)
{
	unsigned long mine = near__held_by_me();

	out->count = 0;
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++) {
		const struct near__atomic_lock *l = &near__atomic_table.locks[i];

		if (near__holds(l, mine) && l->section == &mark)
			out->list[out->count++] = (uint8_t)i;
	}
}

/* Returns whether the list of streams is to be unlocked, or reset. */
static bool finish(void)
{
	struct near__locks marked;
	bool streams = has_streams;

	if (level > 1) {
		level--;
		return false;
	}
	find_marked(&marked);
	near__show(&marked, NULL);
	has_streams = false;
	level = 0;
	near__let_go_of(&marked, marked.count, NEAR__DROPPED);
	return streams;
}

static void in_parent(void)
{
	if (finish())
		near__streams_unlock();
}

static void in_child(void)
{
	if (finish())
		near__streams_reset_in_child();
}

/* Before the program's constructors, so that its own handlers are behind these: they are called
 * in reverse before a fork, and may wait for a mutex whose owner waits for an object. */
__attribute__((constructor(101))) static void begin(void)
{
	/* Without memory for it, what is left is a child that must not use what others were
	 * changing. */
	pthread_atfork(prepare, in_parent, in_child);
}
