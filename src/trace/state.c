/* SPDX-License-Identifier: MIT */
/* near_trace: the state of the process, and what the last call of a thread failed for. */
#include "trace/trace.h"

#include "ground/fork.h"
#include "ground/unique.h"
#include "ground/valgrind.h"

#define TRACE_SIZE 20480
_Static_assert(sizeof(struct near__trace) <= TRACE_SIZE, "near__trace");
NEAR__UNIQUE(near__trace, TRACE_SIZE);
NEAR__UNIQUE(near__trace_table, 8);

int near__trace_fail(int error, const char *reason)
{
	struct near__trace_thread *mine = near__storage_is_own() ? near__trace_thread_own() : NULL;

	if (mine)
		mine->why = reason;
	return error;
}

const char *near_trace_error(void)
{
	return near__block() ? near__trace_thread_peek()->why : "no memory";
}

/* Relaxed: what is registered already is not registered again. */
void near__trace_lock(void)
{
	if (!__atomic_load_n(&near__trace.watches_forks, __ATOMIC_RELAXED) &&
	    near__trace.watch_forks && !near__is_one_thread())
		near__trace.watch_forks();
	near_lock_lock(&near__trace.lock);
}

bool near__trace_try_lock(struct near_lock *lock, sigset_t *signals)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, signals);
	if (near_lock_try_lock(lock))
		return true;
	pthread_sigmask(SIG_SETMASK, signals, NULL);
	return false;
}

void near__trace_unlock(struct near_lock *lock, const sigset_t *signals)
{
	near_lock_unlock(lock);
	pthread_sigmask(SIG_SETMASK, signals, NULL);
}

/* An event in a child adds to `missed`, then loads `current`; this follows the store of `current`.
 * In the one order of sequentially consistent accesses, one of the two finds what the other has
 * stored. */
void near__trace_count_missed(struct near__trace_run *t)
{
	uint64_t n = __atomic_exchange_n(&near__trace.missed, 0, __ATOMIC_SEQ_CST);

	if (!n)
		return;
	__atomic_fetch_or(&t->session->flags, NEAR__TRACE_WAS_EARLY, __ATOMIC_RELAXED);
	__atomic_fetch_add(&t->session->discarded, n, __ATOMIC_RELAXED);
}

NEAR__BEFORE_PROGRAM static void ignore_races(void)
{
	near__valgrind_ignore(&near__trace, sizeof(near__trace));
}
