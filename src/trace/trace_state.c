/* SPDX-License-Identifier: MIT */
/* near_trace: the state of the process, and why a call of this thread has failed. */
#include "base/signals.h"
#include "trace/trace.h"

#include "base/fork.h"
#include "base/reason.h"
#include "base/unique.h"

NEAR__LAYER_STATE(near__trace, 20480);
NEAR__UNIQUE(near__trace_table, 8);

int near__trace_fail(int error, const char *reason)
{
	return near__reason_set(&near__trace, error, reason);
}

const char *near_trace_error(void)
{
	return near__reason_of(&near__trace);
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
	near__signals_block(signals);
	if (near_lock_try_lock(lock))
		return true;
	near__signals_restore(signals);
	return false;
}

void near__trace_unlock(struct near_lock *lock, const sigset_t *signals)
{
	near_lock_unlock(lock);
	near__signals_restore(signals);
}

/* An event in a child adds to `missed`, then loads `current`; this follows the store of `current`.
 * In the one order of sequentially consistent accesses, one of the two finds what the other has
 * stored. */
void near__trace_count_missed(struct near__trace_run *t)
{
	uint64_t n = __atomic_exchange_n(&near__trace.missed, 0, __ATOMIC_SEQ_CST);

	if (!n)
		return;
	__atomic_fetch_or(&t->file.session->flags, NEAR__TRACE_WAS_EARLY, __ATOMIC_RELAXED);
	__atomic_fetch_add(&t->file.session->discarded, n, __ATOMIC_RELAXED);
}
