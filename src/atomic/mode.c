/* SPDX-License-Identifier: MIT */
/* The mode in which operations under locks run. A constructor sets it. */
#include "atomic/table.h"
#include "base/tsan.h"

extern char __libc_single_threaded __attribute__((weak));

static const char shared = NEAR__SHARED, traced = NEAR__TRACED;

/* Until the constructor runs, the process may have several threads. */
const char *near__atomic_mode = &shared;

__attribute__((constructor)) static void mode_begin(void)
{
	if (NEAR__TSAN_HERE)
		near__atomic_mode = &traced;
	else if (&__libc_single_threaded)
		near__atomic_mode = &__libc_single_threaded;
}
