/* SPDX-License-Identifier: MIT */
/* context: what chosen events have besides their fields: ids of the thread's request, the thread's
 * name, the process, the call stack.
 *
 * Such an event is one of another tracepoint, a variant, which has the same name, and these fields
 * after its own: readers need not know about it. A variant is made when the context of a tracepoint
 * changes, and stays: its record is in the session's file before the first event has its id.
 *
 * What the addresses are of: each line of /proc/self/maps with code of a file is a tracepoint
 * without events, near_trace:object, and the line is its place. So no ring overwrites it, snapshots
 * and streams have it, and older readers list it. The lines are read when a context begins to have
 * stacks, before a snapshot that the program takes, by the session's thread at intervals of 250 ms
 * to 16 s, and when it ends, but never by an event. What is loaded and unloaded in between stays
 * unknown. The child of fork has its parent's.
 *
 * The ids are in the thread's block. Only the thread and its signal handlers load and store them:
 * `ids` is 0 while they change, so that a handler that has interrupted a change finds none. */
#ifndef NEARCPU_TRACE_CONTEXT_H
#define NEARCPU_TRACE_CONTEXT_H

#include "trace/trigger.h"

struct near__trace_variant {
	struct near_trace_point point;
	const struct near_trace_point *of;
	uint32_t what; /* enum near_trace_with */
};

/* With near__trace.lock, and near__trace.triggers. */

/* Later patterns decide. 0 or an error. */
int near__trace_context_add(const char *pattern, unsigned what);
/* Of this tracepoint. */
uint32_t near__trace_context_of(const struct near_trace_point *p);
/* In the session's file, and on. NULL: no room. */
struct near_trace_point *near__trace_variant_of(const struct near_trace_point *p, uint32_t what);
/* Zeros. NULL: no memory, with the reason. Those of the second are never freed. */
void *near__trace_map(size_t size);
void *near__trace_room(size_t size);
/* What the process is, if it is another one: in the child of fork by its handler. */
void near__trace_context_read(void);

/* By an event of a tracepoint that is bound so, with a payload without lengths or as many pieces as
 * it has fields. `frame`: see stack.c. */
void near__trace_write_context(const struct near__trace_bound *b, const void *payload,
			       const struct near__trace_piece *pieces, const void *frame);

/* The return addresses of the frames from there on, up to `most`; returns how many (stack.c). */
size_t near__trace_stack(uint64_t *to, size_t most, const void *frame);

#endif
