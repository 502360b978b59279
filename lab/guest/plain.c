/* SPDX-License-Identifier: MIT */
/* lab_plain: the load of a stress test on the kernel, by system calls and without the library:
 * threads that start and exit, migrate, change the protection of pages, and are interrupted by
 * signals; children; membarriers. A failure of this program during hotplug is a fault of the
 * kernel, the firmware or the emulator. */
#define _GNU_SOURCE
#include "lab.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define THREADS 8
#define SECONDS 10
#define MEMBARRIER_RSEQ (1 << 7)
#define MEMBARRIER_REGISTER_RSEQ (1 << 8)

static unsigned cpus[LAB_CPUS], online;
static volatile bool stop;
static unsigned long rounds[THREADS];

static void ignore(int signal)
{
	(void)signal;
}

static void move(unsigned to)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpus[to % online], &set);
	sched_setaffinity(0, sizeof(set), &set); /* fails where that one is offline: fine */
}

static void touch(unsigned char *page, size_t size)
{
	LAB_CHECK(mprotect(page, size, PROT_READ | PROT_WRITE) == 0);
	for (size_t i = 0; i < size; i += 4096)
		page[i]++;
	LAB_CHECK(mprotect(page, size, PROT_READ) == 0);
}

static void *work(void *number)
{
	unsigned self = (unsigned)(uintptr_t)number;
	size_t size = (size_t)64 << 10;
	unsigned char *pages = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	LAB_CHECK(pages != MAP_FAILED);
	for (unsigned i = 0; !stop; i++) {
		touch(pages, size);
		if (i % 16 == 0)
			move(self + i);
		if (i % 64 == 0)
			syscall(SYS_membarrier, MEMBARRIER_RSEQ, 0, 0);
		rounds[self]++;
	}
	munmap(pages, size);
	return NULL;
}

static void have_a_child(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	LAB_CHECK(child > 0 && waitpid(child, NULL, 0) == child);
}

/* One generation of threads. */
static void generation(void)
{
	struct timespec pause = {0, 1000 * 1000};
	pthread_t threads[THREADS];

	stop = false;
	for (uintptr_t i = 0; i < THREADS; i++)
		LAB_CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < 300; i++) {
		nanosleep(&pause, NULL);
		pthread_kill(threads[i % THREADS], SIGUSR1);
	}
	have_a_child();
	stop = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	struct timespec now;
	unsigned long all = 0;
	time_t end;

	signal(SIGUSR1, ignore);
	syscall(SYS_membarrier, MEMBARRIER_REGISTER_RSEQ, 0, 0);
	online = lab_online(cpus);
	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + SECONDS;
	while (now.tv_sec < end) {
		generation();
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
	for (int i = 0; i < THREADS; i++)
		all += rounds[i];
	printf("%lu rounds\n", all);
	return 0;
}
