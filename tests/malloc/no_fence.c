/* SPDX-License-Identifier: MIT */
/* For the stress to find, with NEAR_MUTANT=fence: drains do not fence. A thread may then go on in
 * a sequence with what a drain has taken. */
#include <unistd.h>

#include "kernel/kernel.h"
#include "mutant.h"

void __real_near__fence(void);
void __wrap_near__fence(void);

void __wrap_near__fence(void)
{
	if (!mutant_is("fence"))
		__real_near__fence();
}

/* Where there are no sequences a fence has nothing to do. */
__attribute__((constructor)) static void skip(void)
{
	if (!near__thread_live())
		_exit(77);
}
