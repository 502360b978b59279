/* SPDX-License-Identifier: MIT */
/* slice: a little more time on the CPU for who holds a lock that others wait for, where the kernel
 * has it (7.0 on, and a registration that is long enough).
 *
 * The thread says in its area that it would like to finish. If its time is up meanwhile, the kernel
 * may let it go on for some microseconds, and says so there; the thread then gives the rest away as
 * soon as it has finished. All of it is this thread's and its CPU's own: nothing needs to be
 * atomic. A grant that is taken back between the look at it and the call costs a call for
 * nothing. */
#ifndef NEARCPU_SLICE_H
#define NEARCPU_SLICE_H

#include <stdbool.h>
#include <stdint.h>

enum near__slice_state { NEAR__SLICE_UNKNOWN, NEAR__SLICE_ABLE, NEAR__SLICE_UNABLE };

/* Of this thread; and whether it has asked. */
struct near__slice {
	uint8_t state, asked;
};
extern __thread struct near__slice near__slice __attribute__((tls_model("initial-exec")));

/* False: this thread cannot ask. */
bool near__slice_begin(void);

/* After the section, or before the thread waits. Returns whether there was something to give
 * away. */
bool near__slice_end_asked(void);

static inline void near__slice_end(void)
{
	if (near__slice.asked)
		near__slice_end_asked();
}

#endif
