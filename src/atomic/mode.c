/* SPDX-License-Identifier: MIT */
#include "ground/tsan.h"
#include "table.h"

extern char __libc_single_threaded __attribute__((weak));

static const char shared = NEAR__SHARED, traced = NEAR__TRACED;

/* Before constructors have run, there may be several. */
const char *near__atomic_mode = &shared;

__attribute__((constructor)) static void begin(void)
{
	if (NEAR__TSAN_HERE)
		near__atomic_mode = &traced;
	else if (&__libc_single_threaded)
		near__atomic_mode = &__libc_single_threaded;
}
