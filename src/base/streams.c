/* SPDX-License-Identifier: MIT */
/* What fork handlers ask the C library, see fork.h. */
#include "base/fork.h"

#include <errno.h>
#include <sys/stat.h>

/* Of glibc, from 2.32 on. */
extern char __libc_single_threaded __attribute__((weak));

/* Of glibc. A static program has them if it has fork, which calls them. */
void _IO_list_lock(void) __attribute__((weak));
void _IO_list_unlock(void) __attribute__((weak));
void _IO_list_resetlock(void) __attribute__((weak));

bool near__is_one_thread(void)
{
	struct stat threads;
	int saved = errno;
	bool one;

	if (&__libc_single_threaded)
		return __libc_single_threaded;
	one = stat("/proc/self/task", &threads) == 0 && threads.st_nlink == 2 + 1;
	errno = saved;
	return one;
}

static bool has_streams(void)
{
	return _IO_list_lock && _IO_list_unlock && _IO_list_resetlock;
}

void near__streams_lock(void)
{
	if (has_streams())
		_IO_list_lock();
}

void near__streams_unlock(void)
{
	if (has_streams())
		_IO_list_unlock();
}

/* Once more: glibc may count threads in another way, and have seen one. */
void near__streams_reset_in_child(void)
{
	if (has_streams())
		_IO_list_resetlock();
}
