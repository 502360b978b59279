/* SPDX-License-Identifier: MIT */
/* near__die, see die.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "die.h"

void near__die(const char *what)
{
	/* One call, so that the line stays whole while other threads write. Not writev(): a
	 * cancelled thread would end in it, and the program go on. */
	struct iovec line[] = {
		{(void *)"nearcpu: ", 9},
		{(void *)what, strlen(what)},
		{(void *)"\n", 1},
	};
	long written = syscall(SYS_writev, 2, line, 3);

	/* Nothing is left to do about a standard error that takes nothing. */
	(void)written;
	abort();
}
