/* SPDX-License-Identifier: MIT */
/* Threads of this process that wait in the kernel. One that is in a queue may be awake still: then
 * a wake-up takes it and wakes the next one, too. */
#ifndef NEARCPU_TESTS_SLEEPS_H
#define NEARCPU_TESTS_SLEEPS_H

#include "unit.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The letter behind the name; true if the thread has ended. Neither allocates nor uses a stream. */
static inline bool sleeps(pid_t thread)
{
	char path[64], text[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n <= 0 || strncmp(strrchr(text, ')'), ") S", 3) == 0;
}

/* Its number, which the thread stores before it waits. */
static inline void note_sleeper(pid_t *thread)
{
	__atomic_store_n(thread, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

static inline bool noted_sleeps(const pid_t *thread)
{
	pid_t known = __atomic_load_n(thread, __ATOMIC_ACQUIRE);

	return known && sleeps(known);
}

static inline void wait_until_asleep(const pid_t *thread)
{
	while (!noted_sleeps(thread))
		sched_yield();
}

#endif
