/* SPDX-License-Identifier: MIT */
/* What all fork handlers of the library do, see fork.h. */
#define _GNU_SOURCE
#include "fork.h"

#include <pthread.h>
#include <signal.h>

void near__fork_register(uint32_t *watched, void (*prepare)(void), void (*parent)(void),
			 void (*child)(void))
{
	uint32_t no = 0;

	if (__atomic_compare_exchange_n(watched, &no, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		pthread_atfork(prepare, parent, child);
}

static void block_signals(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
}

/* Signals are not blocked while it waits for the list: that may take as long as the next line of
 * input takes. */
void near__fork_prepare(uint32_t *depth, near__fork_visit *visit)
{
	sigset_t old;

	if (*depth) {
		++*depth;
		return;
	}
	if (near__is_one_thread())
		return;
	near__streams_lock();
	block_signals(&old);
	visit(near_lock_lock);
	*depth = 1;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Returns whether it released the locks. */
static bool finish(uint32_t *depth, near__fork_visit *visit, near__fork_step *release)
{
	sigset_t old;

	if (*depth != 1) {
		*depth -= *depth != 0;
		return false;
	}
	block_signals(&old);
	visit(release);
	*depth = 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return true;
}

void near__fork_in_parent(uint32_t *depth, near__fork_visit *visit)
{
	if (finish(depth, visit, near_lock_unlock))
		near__streams_unlock();
}

void near__fork_in_child(uint32_t *depth, near__fork_visit *visit)
{
	if (finish(depth, visit, near_lock_reset_in_child))
		near__streams_reset_in_child();
}
