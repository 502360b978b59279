/* SPDX-License-Identifier: MIT */
/* near_trace: tracepoints are registered; and those of this library's own layers. They are verbose:
 * off by default; but for those of triggers. */
#include "trace/trace.h"

#include "base/probe.h"
#include "base/valgrind.h"

void near__trace_register(struct near_trace_point *p)
{
	near__trace_add_point(p);
	near__trace_start_by_conf();
}

NEAR_TRACEPOINT(near_park, sleep, NEAR_TRACE_VERBOSE, (ptr, waiter));
NEAR_TRACEPOINT(near_park, woken, NEAR_TRACE_VERBOSE, (ptr, waiter), (i32, error));
NEAR_TRACEPOINT(near_mutex, wait, NEAR_TRACE_VERBOSE, (ptr, mutex));
NEAR_TRACEPOINT(near_mutex, locked, NEAR_TRACE_VERBOSE, (ptr, mutex), (i32, error));
NEAR_TRACEPOINT(near_rcu, begin, NEAR_TRACE_VERBOSE, (ptr, domain), (u64, period));
NEAR_TRACEPOINT(near_rcu, end, NEAR_TRACE_VERBOSE, (ptr, domain), (u64, period));
NEAR_TRACEPOINT(near_malloc, extend, NEAR_TRACE_VERBOSE, (ptr, extent), (u64, pages));
NEAR_TRACEPOINT(near_malloc, discard, NEAR_TRACE_VERBOSE, (ptr, pages), (u64, bytes));

NEAR_TRACEPOINT(near_trace, trigger, NEAR_TRACE_NOTICE, (u32, number), (u64, ns));
NEAR_TRACEPOINT(near_trace, snapshot, NEAR_TRACE_NOTICE, (string, file), (string, trigger),
		(i32, error));

/* The inline function would be a copy of the sequence, in what is no fast path. */
static void waiter_sleeps(const void *waiter, uint64_t unused)
{
	(void)unused;
	near__trace_one(&near__trace_point_near_park_sleep, (uintptr_t)waiter);
}

static void waiter_woken(const void *waiter, uint64_t error)
{
	near_trace_near_park_woken(waiter, (int32_t)error);
}

static void mutex_waits(const void *mutex, uint64_t unused)
{
	(void)unused;
	near__trace_one(&near__trace_point_near_mutex_wait, (uintptr_t)mutex);
}

static void mutex_locked(const void *mutex, uint64_t error)
{
	near_trace_near_mutex_locked(mutex, (int32_t)error);
}

static const struct {
	struct near_trace_point *point;
	void (*hit)(const void *object, uint64_t n);
} probes[NEAR__TRACED_PROBES] = {
	[NEAR__PROBE_SLEEP] = {&near__trace_point_near_park_sleep, waiter_sleeps},
	[NEAR__PROBE_WOKEN] = {&near__trace_point_near_park_woken, waiter_woken},
	[NEAR__PROBE_WAIT] = {&near__trace_point_near_mutex_wait, mutex_waits},
	[NEAR__PROBE_LOCKED] = {&near__trace_point_near_mutex_locked, mutex_locked},
	[NEAR__PROBE_PERIOD] = {&near__trace_point_near_rcu_begin, near_trace_near_rcu_begin},
	[NEAR__PROBE_PERIOD_END] = {&near__trace_point_near_rcu_end, near_trace_near_rcu_end},
	[NEAR__PROBE_EXTEND] = {&near__trace_point_near_malloc_extend,
				near_trace_near_malloc_extend},
	[NEAR__PROBE_DISCARD] = {&near__trace_point_near_malloc_discard,
				 near_trace_near_malloc_discard},
};

/* Before a session of NEAR_CONF has triggers. */
NEAR__BEFORE_PROGRAM static void notes_connect(void)
{
	near__trace.note_trigger = near_trace_near_trace_trigger;
	near__trace.note_snapshot = near_trace_near_trace_snapshot;
}

/* A session may have begun before, with the first tracepoint. */
__attribute__((constructor)) static void probes_connect(void)
{
	near__trace_lock();
	for (unsigned i = 0; i < NEAR__TRACED_PROBES; i++) {
		near__probes[i].hit = probes[i].hit;
		probes[i].point->probe = &near__probes[i].enabled;
	}
	if (near__trace.current)
		near__trace_apply(near__trace.current->clock);
	near_lock_unlock(&near__trace.lock);
}
