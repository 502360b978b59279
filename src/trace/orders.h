/* SPDX-License-Identifier: MIT */
/* orders: what other processes ask for, as `nearcpu trace enable` does. The session's thread
 * carries them out; in a child of fork, which has none, an event that comes to one. */
#ifndef NEARCPU_TRACE_ORDERS_H
#define NEARCPU_TRACE_ORDERS_H

#include "trace/trace.h"

/* Carries the order out; with near__trace.lock, if `locked`. */
void near__trace_obey(struct near__trace_run *t, uint32_t request, bool locked);
void near__trace_find_order(struct near__trace_run *t);
/* near__trace.order begins, and ends, to be that of a session; with near__trace.lock. */
void near__trace_map_order(const struct near__trace_run *t);
void near__trace_unmap_order(void);
/* Acquire: pairs with the release that follows the order's text. */
static inline bool near__trace_has_order(const struct near__trace_run *t)
{
	return __atomic_load_n(&t->control->request, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&t->control->done, __ATOMIC_RELAXED);
}
/* Relaxed: changes with near__trace.lock, under which it is loaded again before an order is
 * obeyed. */
static inline bool near__trace_has_thread(const struct near__trace_run *t)
{
	return __atomic_load_n(&t->has_thread, __ATOMIC_RELAXED);
}

/* By an event, after its stores of `end`: another process stores `request`, then 0 to `end`. */
static inline void near__trace_look_for_order(struct near__trace_run *t)
{
	if (near__trace_has_thread(t))
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (near__trace_has_order(t))
		near__trace.find_order(t);
}

/* An event of a tracepoint that is off, or not registered. The next session, or the registration,
 * counts what is early. */
static inline void near__trace_write_none(uint32_t enabled)
{
	if (enabled & NEAR__TRACE_EARLY)
		__atomic_fetch_add(&near__trace.missed, 1, __ATOMIC_SEQ_CST);
	if (enabled & NEAR__TRACE_WATCHED)
		near__trace_watch();
}

/* The thread, control.c. */
int near__trace_start_thread(struct near__trace_run *t);
void near__trace_end_thread(struct near__trace_run *t);

#endif
