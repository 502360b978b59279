/* SPDX-License-Identifier: MIT */
/* clock: times in nanoseconds, threads, and modules beside the program. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static inline uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* Adds `sign` times what getrusage has counted. */
static inline void add_usage(int who, uint64_t sign, uint64_t *user_ns, uint64_t *system_ns)
{
	struct rusage u;

	getrusage(who, &u);
	*user_ns += sign * timeval_ns(u.ru_utime);
	*system_ns += sign * timeval_ns(u.ru_stime);
}

/* A thread with a small stack: machines have many CPUs. 0 or an errno. */
static inline int start_thread(pthread_t *id, size_t stack, void *(*function)(void *), void *arg)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack);
	err = pthread_create(id, &attr, function, arg);
	pthread_attr_destroy(&attr);
	return err;
}

/* The path of a file in the program's directory, which the next call overwrites. */
static inline const char *beside(const char *file)
{
	static char path[PATH_MAX + 64];

	path[0] = 0;
	if (readlink("/proc/self/exe", path, PATH_MAX - 1) > 0)
		strcpy(strrchr(path, '/') + 1, file);
	return path;
}

/* What a module there has under this name, or NULL. The module stays. */
static inline void *symbol_beside(const char *file, const char *name)
{
	void *module = dlopen(beside(file), RTLD_NOW | RTLD_LOCAL);

	return module ? dlsym(module, name) : NULL;
}

#endif
