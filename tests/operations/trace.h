/* SPDX-License-Identifier: MIT */
/* The operations of near_trace: what trace.c and trace_records.c share. */
#ifndef NEARCPU_TESTS_OPERATIONS_TRACE_H
#define NEARCPU_TESTS_OPERATIONS_TRACE_H

#include "objects.h"

#include "trace/trace.h"

#define T OBJ.trace
#define RING_SIZE (NEAR__TRACE_SUB_SIZE * NEAR__TRACE_LEAST_SUBS)
/* Where open rings begin: a chain ends this sub-buffer, and the next one is at the ring's begin. In
 * the emulator a sub-buffer has 512 bytes. */
#define FIRST (RING_SIZE - 512)
/* No record has room after it in this sub-buffer. */
#define LAST (RING_SIZE - 24)
#define LONG 32 /* words of the longest record */
#define TEXT 21
#define NONE 0x40 /* the byte of events that are no actor's */

static inline struct near__trace_ring *trace_ring_at(char *rings, unsigned i)
{
	return (struct near__trace_ring *)(rings + i * (RING_SIZE + NEAR__TRACE_PAGE) +
					   NEAR__TRACE_PAGE - NEAR__TRACE_RINGS_AT);
}

/* Where the open ring of a slot begins: some are full, as each sequence has to find that too. Not
 * the first slot's, which a process that is bound to one CPU does not leave. */
static inline uint64_t trace_begin(unsigned slot)
{
	return slot % 2 != T.first_is_odd ? LAST : FIRST;
}

/* Of the tracepoint with a text. */
uint64_t trace_text_id(void);

/* What the rings in a copy of the session's file have is whole. */
bool trace_is_whole(char *rings, const uint64_t *used);

#endif
