/* SPDX-License-Identifier: MIT */
/* How this CPU changes 16 aligned bytes. The first use finds this out; it depends on the CPU alone,
 * so all threads get the same result, and an object is always under a lock or never. This needs no
 * constructor and no ifunc; it works in static programs, and before libc is initialised. */
#ifndef NEARCPU_ATOMIC_WIDE_H
#define NEARCPU_ATOMIC_WIDE_H

#include <nearcpu/detail/arch/arch.h>

#include NEAR__ARCH_ATOMIC

/* An enum near__wide_mode; -1: not known yet. */
extern int near__atomic_wide __attribute__((visibility("hidden")));

int near__atomic_wide_find(void) __attribute__((visibility("hidden")));

/* Returns the mode, or -1. */
static inline int near__wide_mode_if_known(void)
{
	/* Relaxed: it names no other memory. */
	return __atomic_load_n(&near__atomic_wide, __ATOMIC_RELAXED);
}

static inline int near__wide_mode(void)
{
	int mode = near__wide_mode_if_known();

	if (!NEAR__HAS_WIDE)
		return NEAR__WIDE_LOCKS;
	return __builtin_expect(mode < 0, 0) ? near__atomic_wide_find() : mode;
}

/* For tests: sets the mode of another CPU, at most near__wide_best(). */
static inline void near__atomic_force_wide(int mode)
{
	__atomic_store_n(&near__atomic_wide, mode, __ATOMIC_RELAXED);
}

#endif
