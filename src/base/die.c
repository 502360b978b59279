/* SPDX-License-Identifier: MIT */
/* near__warn and near__die, see die.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/die.h"

/* One call, so that the line stays whole while other threads write. Not writev(): a cancelled
 * thread would end in it, and the program go on. */
void near__warn(const char *what)
{
	struct iovec line[] = {
		{(void *)"nearcpu: ", 9},
		{(void *)what, strlen(what)},
		{(void *)"\n", 1},
	};
	int saved = errno;
	long written = syscall(SYS_writev, 2, line, 3);

	(void)written; /* nothing can be done about a standard error that takes nothing */
	errno = saved;
}

void near__die(const char *what)
{
	near__warn(what);
	abort();
}
