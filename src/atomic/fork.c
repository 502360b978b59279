/* SPDX-License-Identifier: MIT */
/* fork: all locks are held while the process is copied, so that the child finds no object half
 * changed.
 *
 * What else runs then in this thread (other fork handlers, signal handlers) and uses an object
 * meets locks that its own thread holds, and goes on as help.c has it. Locks that the thread held
 * before, as a signal handler forks, stay with the code that took them; in the child, too, which
 * has the same thread pointer. A fork within a fork finds its locks held, and leaves them to the
 * outer one. */
#define _GNU_SOURCE
#include <pthread.h>

#include "locks.h"
#include "signals.h"

/* Whose locks: one for each fork within a fork. */
#define LEVELS 4

static struct near__section marks[LEVELS] = {
	{.step = NEAR__NOTHING},
	{.step = NEAR__NOTHING},
	{.step = NEAR__NOTHING},
	{.step = NEAR__NOTHING},
};
static __thread int level __attribute__((tls_model("initial-exec")));

static void prepare(void)
{
	struct near__locks all, taken;
	struct near__blocked b;

	all.count = NEAR__ATOMIC_LOCKS;
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++)
		all.list[i] = (uint8_t)i;
	if (++level > LEVELS)
		return;
	b = near__block_signals();
	near__take_others(&all, near__held_by_me(), &taken);
	near__show(&taken, &marks[level - 1]);
	near__unblock_signals(&b);
}

/* What this fork took, and not one around it. */
static void find_marked(struct near__locks *out, const struct near__section *mark)
{
	unsigned long mine = near__held_by_me();

	out->count = 0;
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++) {
		const struct near__atomic_lock *l = &near__atomic_table.locks[i];

		/* Relaxed: only this thread stores `mine`. */
		if (__atomic_load_n(&l->word, __ATOMIC_RELAXED) == mine && l->section == mark)
			out->list[out->count++] = (uint8_t)i;
	}
}

static void in_parent(void)
{
	struct near__locks taken;

	if (level-- > LEVELS)
		return;
	find_marked(&taken, &marks[level]);
	near__show(&taken, NULL);
	near__let_go_of(&taken, taken.count, NEAR__DROPPED);
}

static void in_child(void)
{
	/* Who slept did so in the parent. But for this thread, if a handler of its own forks:
	 * that it shall not sleep on, it finds in `waking`. */
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++) {
		near__atomic_table.locks[i].waiters = 0;
		near__atomic_table.locks[i].waking = 1;
	}
	in_parent();
}

__attribute__((constructor)) static void begin(void)
{
	/* Without memory for it, what is left is a child that must not use what others were
	 * changing. */
	pthread_atfork(prepare, in_parent, in_child);
}
