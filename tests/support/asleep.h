/* SPDX-License-Identifier: MIT */
/* Threads that are to be found waiting in the kernel. Emulators show threads in their own way. For
 * tests of unit.h. */
#ifndef NEARCPU_TESTS_ASLEEP_H
#define NEARCPU_TESTS_ASLEEP_H

#include <fcntl.h>

/* Whether this thread of the process does: the letter behind the name. Neither allocates nor uses a
 * stream. */
static inline bool is_asleep(pid_t thread)
{
	char path[64], text[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	CHECK(n > 0);
	text[n] = '\0';
	return strncmp(strrchr(text, ')'), ") S", 3) == 0;
}

/* A thread that others wait for stores its id first. */
static inline void announce_thread(pid_t *as)
{
	__atomic_store_n(as, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

static inline void wait_until_asleep(const pid_t *thread)
{
	pid_t known;

	while (!(known = __atomic_load_n(thread, __ATOMIC_ACQUIRE)) || !is_asleep(known))
		sched_yield();
}

#endif
