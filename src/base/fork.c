/* SPDX-License-Identifier: MIT */
/* What all fork handlers of the library do, see fork.h. */
#define _GNU_SOURCE
#include "base/fork.h"

#include <pthread.h>

#include "base/self.h"
#include "base/signals.h"

void near__fork_register(uint32_t *watched, void (*prepare)(void), void (*parent)(void),
			 void (*child)(void))
{
	uint32_t no = 0;

	if (__atomic_compare_exchange_n(watched, &no, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		pthread_atfork(prepare, parent, child);
}

/* Relaxed: only this thread stores its own address, and the locks order all else. */
bool near__fork_is_mine(const struct near__fork_turn *t)
{
	return __atomic_load_n(&t->thread, __ATOMIC_RELAXED) == (uintptr_t)&near__self;
}

static void set_turn(struct near__fork_turn *t, uint32_t depth)
{
	t->depth = depth;
	__atomic_store_n(&t->thread, depth ? (uintptr_t)&near__self : 0, __ATOMIC_RELAXED);
}

/* Signals are not blocked while it waits for the list: that may take as long as the next line of
 * input takes. */
void near__fork_prepare(struct near__fork_turn *t, near__fork_visit *visit)
{
	sigset_t old;

	if (near__fork_is_mine(t)) {
		t->depth++;
		return;
	}
	if (near__is_one_thread())
		return;
	near__streams_lock();
	near__signals_block(&old);
	visit(near_lock_lock);
	set_turn(t, 1);
	near__signals_restore(&old);
}

/* Returns whether it released the locks. */
static bool turn_finish(struct near__fork_turn *t, near__fork_visit *visit,
			near__fork_step *release)
{
	sigset_t old;

	if (!near__fork_is_mine(t))
		return false;
	if (t->depth > 1) {
		t->depth--;
		return false;
	}
	near__signals_block(&old);
	set_turn(t, 0);
	visit(release);
	near__signals_restore(&old);
	return true;
}

void near__fork_in_parent(struct near__fork_turn *t, near__fork_visit *visit)
{
	if (turn_finish(t, visit, near_lock_unlock))
		near__streams_unlock();
}

void near__fork_in_child(struct near__fork_turn *t, near__fork_visit *visit)
{
	if (turn_finish(t, visit, near_lock_reset_in_child))
		near__streams_reset_in_child();
}
