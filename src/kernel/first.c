/* SPDX-License-Identifier: MIT */
/* The word by which versions of the library in one process know which came first. It is the only
 * state that they share, and stays as it is: the address of the state of that version. */
#include "base/unique.h"
#include "kernel/kernel.h"

NEAR__UNIQUE_FOR_ALL(near__first, 8);
extern NEAR__DATA uint64_t near__first;

/* Relaxed: nothing else is loaded because of it. */
bool near__is_first_version(void)
{
	uint64_t first = 0, own = (uintptr_t)&near__process;

	return __atomic_compare_exchange_n(&near__first, &first, own, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED) ||
	       first == own;
}
