/* SPDX-License-Identifier: MIT */
/* The ways in which the library may do 16 aligned bytes: 0, locks, to wide_best(), what this CPU
 * takes. A program in which the library is shared knows this one, and cannot change it. */
#ifndef NEARCPU_TESTS_ATOMIC_WAYS_H
#define NEARCPU_TESTS_ATOMIC_WAYS_H

#include "unit.h"

int wide_best(void);
/* In use now. */
int wide_mode(void);
/* Those of this CPU's family. */
extern const int wide_modes;
/* Uses another, or does nothing and says so. */
bool wide_force(int mode);

/* Whether a load of n bytes at p writes them back, as the CPU has no other way. */
static inline bool wide_load_writes(const void *p, size_t n)
{
	size_t at = (uintptr_t)p % 16;

	return wide_mode() > 0 && wide_mode() < wide_modes - 1 && at + n <= 16 && at % 8 + n > 8;
}

/* Runs `run` in a child for each mode. One of a better CPU is left out if this one cannot. */
static inline void wide_each(void (*run)(void *))
{
	for (int mode = 0; mode < wide_modes && wide_force(mode); mode++) {
		int signal = 0, status = unit_wait(unit_fork(run, NULL), &signal);

		if (mode > wide_best() && signal == SIGILL)
			break;
		if (status)
			fail_msg("mode %d: status %d, signal %d", mode, status, signal);
	}
	wide_force(wide_best());
}

#endif
