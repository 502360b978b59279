/* SPDX-License-Identifier: MIT */
/* area: the memory where the kernel stores on which CPU a thread runs: registered by the C library
 * or by this library; or, for a thread that is not live, memory that the kernel does not know. */
#ifndef NEARCPU_AREA_H
#define NEARCPU_AREA_H

#include <nearcpu/rseq.h>

#include "base/block.h"

#define NEAR__LEGACY_SIZE 32            /* every kernel accepts it */
#define NEAR__SLICE_AVAILABLE (1u << 4) /* of near__area.flags, which the kernel sets */

/* The area that the C library registered for this thread, or NULL; and its size. */
struct near__area *near__area_of_libc(void);
uint32_t near__area_size_of_libc(void);

/* Registers an area of this library for this thread, and returns it. NULL: there is no memory, or
 * the kernel refused. */
struct near__area *near__area_register(void);
uint32_t near__area_own_size(void);

/* Of an area, registered or not. Volatile: it changes whenever the thread migrates. Negative: the
 * kernel does not write it. */
static inline int32_t near__area_cpu(const struct near__area *area)
{
	return (int32_t) * (const volatile uint32_t *)&area->cpu_id;
}

/* What this layer stores in a thread's block. */
struct near__kernel_thread {
	uint32_t uses; /* of `hint` since it was queried */
	uint32_t hint;
	int32_t refusal; /* why it has no area: what the kernel returned, or this: */
};
/* Another part of the program has taken the registration away. */
#define NEAR__AREA_TAKEN 1
NEAR__BLOCK_PART(near__kernel_thread, struct near__kernel_thread, kernel);

/* Stores why this thread has no area, if there is memory. */
void near__area_refuse(int32_t why);

/* From here on this thread is not live. */
void near__enter_dead(void);

#endif
