/* SPDX-License-Identifier: MIT */
/* area: the memory where the kernel stores on which CPU a thread runs: registered by the C library
 * or by this library; or, for a thread that is not live, memory that the kernel does not know. */
#ifndef NEARCPU_AREA_H
#define NEARCPU_AREA_H

#include <nearcpu/rseq.h>

#define NEAR__LEGACY_SIZE 32            /* every kernel accepts it */
#define NEAR__SLICE_AVAILABLE (1u << 4) /* of near__area.flags, which the kernel sets */

/* The area that the C library registered for this thread, or NULL; and its size. */
struct near__area *near__area_of_libc(void);
uint32_t near__area_size_of_libc(void);

struct near__area *near__area_own(void);
uint32_t near__area_own_size(void);

/* Of an area, registered or not. Volatile: it changes whenever the thread migrates. Negative: the
 * kernel does not write it. */
static inline int32_t near__area_cpu(const struct near__area *area)
{
	return (int32_t) * (const volatile uint32_t *)&area->cpu_id;
}

/* Registers this thread's own area. Returns false if the kernel refused. */
bool near__area_register(void);

/* Why this thread has no area: what the kernel returned for the last try, or 1: another part of the
 * program has taken the registration away. */
#define NEAR__AREA_TAKEN 1
extern __thread long near__area_refusal __attribute__((tls_model("initial-exec")));

/* From here on this thread is not live. */
void near__enter_dead(void);

/* The destructor of threads with an own area, and the pthread key that has it. */
void near__at_thread_exit(void *unused);
int near__thread_exit_key(unsigned *key);

#endif
