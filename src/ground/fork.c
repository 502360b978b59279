/* SPDX-License-Identifier: MIT */
/* What all fork handlers of the library do, see fork.h. */
#define _GNU_SOURCE
#include "fork.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

/* Of glibc, from 2.32 on. */
extern char __libc_single_threaded __attribute__((weak));

/* Of glibc. A static program has them if it has fork, which calls them. */
void _IO_list_lock(void) __attribute__((weak));
void _IO_list_unlock(void) __attribute__((weak));
void _IO_list_resetlock(void) __attribute__((weak));

void near__fork_register(uint32_t *watched, void (*prepare)(void), void (*parent)(void),
			 void (*child)(void))
{
	uint32_t no = 0;

	if (__atomic_compare_exchange_n(watched, &no, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		pthread_atfork(prepare, parent, child);
}

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

static void block_signals(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
}

/* Signals are not blocked while it waits for the list: that may take as long as the next line of
 * input takes. */
void near__fork_prepare(uint32_t *depth, void (*lock_all)(void))
{
	sigset_t old;

	if (*depth) {
		++*depth;
		return;
	}
	if (near__is_one_thread())
		return;
	near__streams_lock();
	block_signals(&old);
	lock_all();
	*depth = 1;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Returns whether it released the locks. */
static bool finish(uint32_t *depth, void (*release_all)(void))
{
	sigset_t old;

	if (*depth != 1) {
		*depth -= *depth != 0;
		return false;
	}
	block_signals(&old);
	release_all();
	*depth = 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return true;
}

void near__fork_in_parent(uint32_t *depth, void (*unlock_all)(void))
{
	if (finish(depth, unlock_all))
		near__streams_unlock();
}

void near__fork_in_child(uint32_t *depth, void (*reset_all)(void))
{
	if (finish(depth, reset_all))
		near__streams_reset_in_child();
}
