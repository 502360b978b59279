/* SPDX-License-Identifier: MIT */
/* slice: extends the time slice of a thread that holds a lock which others wait for, where the
 * kernel supports it (7.0 and later, and a registration that is long enough).
 *
 * The thread sets a request in its rseq area. If its time slice ends while the request is set, the
 * kernel may let it run some microseconds longer, and records the grant next to the request; the
 * thread then yields the rest after the section. Only the thread and the kernel on its CPU use
 * these words: nothing needs to be atomic. If the kernel takes a grant back between the load and
 * the call, the call is useless and does no harm. */
#ifndef NEARCPU_LOCKS_SLICE_H
#define NEARCPU_LOCKS_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "locks/locks_state.h"

enum near__slice_state { NEAR__SLICE_UNKNOWN, NEAR__SLICE_ABLE, NEAR__SLICE_UNABLE };

/* Requests an extension. False: this thread cannot. */
bool near__slice_begin(void);

/* Ends a request. Returns whether the kernel had granted it. */
bool near__slice_end_requested(void);

/* Called after the section, or before the thread waits. */
static inline void near__slice_end(void)
{
	if (near__locks_thread_peek()->slice.requested)
		near__slice_end_requested();
}

#endif
