/* SPDX-License-Identifier: MIT */
/* A process whose threads send messages by pipes, for the comparison with the kernel.
 *
 * First there are more threads than CPUs, then a quarter of them: the policies differ in what they
 * do with few threads, and when threads end.
 */
#include "base/clock.h"
#include "sim/kernel.h"

#include <errno.h>
#include <nearcpu/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WORK_NS 8000
#define KIND 8         /* of 8 threads, one is pinned and two migrate */
#define MOVE_ROUNDS 16 /* of a thread that migrates */

static struct load {
	struct kernel_samples *samples;
	int pipes[KERNEL_THREADS][2];
	uint64_t half, end;
	cpu_set_t allowed;
} load;

int kernel_samples_new(struct kernel_samples **out, unsigned cpus)
{
	struct kernel_samples *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (s == MAP_FAILED)
		return -errno;
	s->threads = 2 * cpus + 2 < KERNEL_THREADS ? 2 * cpus + 2 : KERNEL_THREADS;
	*out = s;
	return 0;
}

void kernel_samples_free(struct kernel_samples *s)
{
	munmap(s, sizeof(*s));
}

/* The id at this time: it was the same before and after. */
static void sample(struct kernel_thread *t)
{
	unsigned cid = near_cid();
	uint64_t time = near__clock_ns(CLOCK_MONOTONIC);

	if (near_cid() == cid && t->count < KERNEL_SAMPLES)
		t->at[t->count++] = (struct kernel_sample){time, cid};
}

static void pin(unsigned n)
{
	unsigned count = (unsigned)CPU_COUNT(&load.allowed), left = count ? n % count : 0;
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &load.allowed) && left-- == 0)
			CPU_SET(cpu, &one);
	if (CPU_COUNT(&one) == 1)
		sched_setaffinity(0, sizeof(one), &one);
}

/* To another CPU, by a set that is only one smaller: kernels before 6.13 compare a thread's number
 * of CPUs with that of threads, and the records do not have it. */
static void move(void)
{
	cpu_set_t others = load.allowed;

	CPU_CLR(sched_getcpu(), &others);
	if (sched_setaffinity(0, sizeof(others), &others) == 0)
		sched_setaffinity(0, sizeof(load.allowed), &load.allowed);
}

static void load_work(uint64_t ns)
{
	uint64_t until = near__clock_ns(CLOCK_MONOTONIC) + ns;

	while (near__clock_ns(CLOCK_MONOTONIC) < until)
		;
}

/* Of four threads, one goes on after half of the time. */
static bool stays(unsigned n)
{
	return n % 4 == 3;
}

static unsigned receiver(unsigned random)
{
	unsigned n = random % load.samples->threads;

	if (near__clock_ns(CLOCK_MONOTONIC) < load.half)
		return n;
	n |= 3;
	return n < load.samples->threads ? n : 3;
}

static void *run_thread(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg, random = n * 2654435761u + 1;
	struct kernel_thread *t = &load.samples->thread[n];
	uint64_t end = stays(n) ? load.end : load.half;
	char token = 0;

	t->tid = (int)syscall(SYS_gettid);
	if (n % KIND == 0)
		pin(n / KIND);
	for (unsigned round = 0; near__clock_ns(CLOCK_MONOTONIC) < end; round++) {
		random = random * 1664525u + 1013904223u;
		sample(t);
		if (read(load.pipes[n][0], &token, 1) < 0)
			break;
		sample(t);
		load_work(WORK_NS / 2 + (random >> 8) % WORK_NS);
		if ((n % KIND == 1 || n % KIND == 7) && round % MOVE_ROUNDS == 0)
			move();
		if (write(load.pipes[receiver(random >> 8)][1], &token, 1) < 0)
			break;
	}
	return NULL;
}

/* Then wakes threads: those that end, and some that stay; or all. */
static int wait_until(uint64_t time, bool all)
{
	while (near__clock_ns(CLOCK_MONOTONIC) < time)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	for (unsigned i = 0; i < load.samples->threads; i++)
		if ((all || !stays(i) || i % KIND == 3) && write(load.pipes[i][1], "", 1) < 0)
			return 1;
	return 0;
}

static int run_process(unsigned seconds)
{
	unsigned threads = load.samples->threads, started = 0;
	pthread_t ids[KERNEL_THREADS];

	sched_getaffinity(0, sizeof(load.allowed), &load.allowed);
	for (unsigned i = 0; i < threads; i++)
		if (pipe(load.pipes[i]))
			return 1;
	/* Of four threads, three have a message. */
	for (unsigned i = 0; i < threads; i++)
		if (i % 4 && write(load.pipes[i][1], "", 1) < 0)
			return 1;
	load.half = near__clock_ns(CLOCK_MONOTONIC) + seconds * 500000000ull;
	load.end = load.half + seconds * 500000000ull;
	while (started < threads &&
	       !pthread_create(&ids[started], NULL, run_thread, (void *)(uintptr_t)started))
		started++;
	if (wait_until(load.half, false) || wait_until(load.end, true))
		return 1;
	for (unsigned i = 0; i < started; i++)
		pthread_join(ids[i], NULL);
	return started < threads;
}

int kernel_load(struct kernel_samples *s, unsigned seconds)
{
	int pid;

	load.samples = s;
	pid = fork();
	if (pid == 0)
		_exit(run_process(seconds));
	return pid < 0 ? -errno : pid;
}
