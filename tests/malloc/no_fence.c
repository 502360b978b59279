/* SPDX-License-Identifier: MIT */
/* For the stress to find: drains do not fence, so that a thread may go on in a sequence with what a
 * drain has taken. */
#include <unistd.h>

#include "kernel/internal.h"

void __wrap_near__fence(void);

void __wrap_near__fence(void)
{
}

/* Where there are no sequences a fence has nothing to do. */
__attribute__((constructor)) static void skip(void)
{
	if (!near__thread_live())
		_exit(77);
}
