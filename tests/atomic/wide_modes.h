/* SPDX-License-Identifier: MIT */
/* The implementations of 16 aligned bytes: from 0, locks, to near__wide_best(), that of this CPU. A
 * program that is linked with the shared library can only use the latter. */
#ifndef NEARCPU_TESTS_ATOMIC_WIDE_MODES_H
#define NEARCPU_TESTS_ATOMIC_WIDE_MODES_H

#include "calls.h"
#include "unit.h"

#include "atomic/wide.h"

#ifdef TEST_SHARED
#define WIDE_FORCIBLE false
#define wide_mode() near__wide_best()
#define wide_force(mode) (void)(mode)
#else
#define WIDE_FORCIBLE true
#define wide_mode() near__wide_mode()
#define wide_force(mode) near__atomic_force_wide(mode)
#endif

/* Whether a load of n bytes at p writes to them, as it is a compare-exchange. */
static inline bool wide_load_writes(const void *p, size_t n)
{
	size_t at = (uintptr_t)p % 16;
	int mode = wide_mode();

	return mode > 0 && mode < NEAR__WIDE_MODES - 1 && at + n <= 16 && at % 8 + n > 8;
}

/* In a child, since an assertion that fails here must not go on with the parent's tests. What this
 * CPU has no instruction for ends it. */
static inline void wide_run(void *run)
{
	_Alignas(16) unsigned char bytes[16] = {0}, other[16] = {0};

	call_load(16, bytes, other, __ATOMIC_SEQ_CST);
	call_store(16, bytes, other, __ATOMIC_SEQ_CST);
	call_compare_exchange(16, bytes, other, other, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	_exit((*(int (**)(void))run)());
}

/* Runs tests in a child for each implementation that this CPU has instructions for. */
static inline void wide_each(int (*run)(void))
{
	if (!WIDE_FORCIBLE)
		skip();
	for (int mode = 0; mode < NEAR__WIDE_MODES; mode++) {
		int signal = 0, status;

		wide_force(mode);
		status = unit_wait(unit_fork(wide_run, (void *)&run), &signal);
		if (mode > near__wide_best() && signal == SIGILL)
			break;
		if (status)
			fail_msg("mode %d: status %d, signal %d", mode, status, signal);
	}
	wide_force(near__wide_best());
}

#endif
