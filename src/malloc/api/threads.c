/* SPDX-License-Identifier: MIT */
/* pthread_create, unshare and setns, in the shared library: where the background thread begins, and
 * ends for functions that require a process with one thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "malloc/cache/background.h"

#define ENTRY __attribute__((visibility("default")))

typedef int create_function(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *arg),
			    void *arg);

/* Called late, as in deepbind.c. Relaxed: the function existed before this library. */
static create_function *pthread_create_find(void)
{
	static create_function *found;
	create_function *real = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (!real) {
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
		__atomic_store_n(&found, real, __ATOMIC_RELAXED);
	}
	return real;
}

/* The program may call pthread_create here, and the system lets it: a filter of system calls may
 * forbid it later. */
ENTRY int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *arg),
			 void *arg)
{
	create_function *real = pthread_create_find();
	int failed = real ? real(thread, attr, run, arg) : EAGAIN;

	if (!failed)
		near__background_start_automatically();
	return failed;
}

ENTRY int unshare(int flags)
{
	near__background_end();
	return (int)syscall(SYS_unshare, flags);
}

ENTRY int setns(int fd, int kind)
{
	near__background_end();
	return (int)syscall(SYS_setns, fd, kind);
}
