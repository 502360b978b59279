/* SPDX-License-Identifier: MIT */
/* support: what several benchmarks need. */
#include "bench.h"

#include <errno.h>
#include <nearcpu/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Machines of more than 1,024 CPUs need a larger set than cpu_set_t. */
#define SET_CPUS 8192

static cpu_set_t *allowed_set(void)
{
	static cpu_set_t *set;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	if (!set) {
		set = CPU_ALLOC(SET_CPUS);
		if (!set)
			abort();
		CPU_ZERO_S(CPU_ALLOC_SIZE(SET_CPUS), set);
		if (sched_getaffinity(0, CPU_ALLOC_SIZE(SET_CPUS), set))
			CPU_SET_S(0, CPU_ALLOC_SIZE(SET_CPUS), set);
	}
	pthread_mutex_unlock(&lock);
	return set;
}

unsigned bench_allowed_cpus(void)
{
	return (unsigned)CPU_COUNT_S(CPU_ALLOC_SIZE(SET_CPUS), allowed_set());
}

unsigned bench_allowed_cpu(unsigned i)
{
	cpu_set_t *set = allowed_set();
	unsigned cpu = 0;

	i %= bench_allowed_cpus();
	for (;; cpu++) {
		if (!CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(SET_CPUS), set))
			continue;
		if (i-- == 0)
			return cpu;
	}
}

int bench_pin(unsigned cpu)
{
	size_t size = CPU_ALLOC_SIZE(SET_CPUS);
	cpu_set_t *set = CPU_ALLOC(SET_CPUS);
	int err = 0;

	if (!set)
		return -ENOMEM;
	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	/* Pins the calling thread alone. */
	if (sched_setaffinity(0, size, set))
		err = -errno;
	CPU_FREE(set);
	return err;
}

void *bench_alloc(size_t n, size_t size)
{
	void *p;

	if (posix_memalign(&p, BENCH_LINE, n * size))
		return NULL;
	memset(p, 0, n * size);
	return p;
}

const char *bench_compare(uint64_t found, uint64_t expected)
{
	static char text[96];

	if (found == expected)
		return NULL;
	snprintf(text, sizeof(text), "wrong result: counted %llu, expected %llu",
		 (unsigned long long)found, (unsigned long long)expected);
	return text;
}

const char *bench_needs_live(void)
{
	struct near_rseq_status st;

	near_rseq_status(&st, sizeof(st));
	return st.live ? NULL : st.why;
}

const char *bench_needs_cid(void)
{
	struct near_rseq_status st;

	near_rseq_status(&st, sizeof(st));
	if (!st.live)
		return st.why;
	return st.has_cid ? NULL : "the kernel has no concurrency ids (Linux 6.3)";
}

const char *bench_needs_own_area(void)
{
	struct near_rseq_status st;

	near_rseq_status(&st, sizeof(st));
	if (!st.live)
		return st.why;
	return st.own_area ? NULL : "the C library registered rseq all the same";
}
