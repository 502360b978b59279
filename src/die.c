/* SPDX-License-Identifier: MIT */
/* near__die, see die.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "die.h"

void near__die(const char *what)
{
	/* One call, so that the line stays whole beside what other threads write. */
	struct iovec line[] = {
		{(void *)"nearcpu: ", 9},
		{(void *)what, strlen(what)},
		{(void *)"\n", 1},
	};
	ssize_t written = writev(2, line, 3);

	/* Nothing is left to do about a standard error that takes nothing. */
	(void)written;
	abort();
}
