/* SPDX-License-Identifier: MIT */
/* Finds out how this CPU changes 16 aligned bytes. */
#include "atomic/wide.h"

int near__atomic_wide = -1;

int near__atomic_wide_find(void)
{
	int mode = near__wide_best();

	__atomic_store_n(&near__atomic_wide, mode, __ATOMIC_RELAXED);
	return mode;
}
