/* SPDX-License-Identifier: MIT */
/* The implementations of 16 aligned bytes: from 0, locks, to wide_best(), that of this CPU. A
 * program that is linked with the shared library can only use the latter. */
#ifndef NEARCPU_TESTS_ATOMIC_WIDE_MODES_H
#define NEARCPU_TESTS_ATOMIC_WIDE_MODES_H

#include "unit.h"

int wide_best(void);
/* The current one. */
int wide_mode(void);
/* How many this architecture has. */
extern const int wide_modes;
/* Changes it, or returns false. */
bool wide_force(int mode);

/* Whether a load of n bytes at p writes to them, as it is a compare-exchange. */
static inline bool wide_load_writes(const void *p, size_t n)
{
	size_t at = (uintptr_t)p % 16;

	return wide_mode() > 0 && wide_mode() < wide_modes - 1 && at + n <= 16 && at % 8 + n > 8;
}

/* Runs `run` in a child for each implementation that this CPU has instructions for. */
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
