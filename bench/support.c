/* SPDX-License-Identifier: MIT */
/* support: what several benchmarks need. */
#include "bench.h"

#include <errno.h>
#include <nearcpu/histogram.h>
#include <nearcpu/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
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

struct bench_line *bench_lines;

int bench_setup_lines(struct bench_run *run)
{
	(void)run;
	bench_lines = bench_alloc(near_cpus(), sizeof(*bench_lines));
	return bench_lines ? 0 : -ENOMEM;
}

uint64_t bench_sum_lines(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < near_cpus(); i++)
		sum += atomic_load(&bench_lines[i].value);
	return sum;
}

int bench_waits(struct near_histogram *times, struct bench_sample *out)
{
	struct near_histogram_snapshot s;
	int err = near_histogram_read(times, &s);

	if (err)
		return err;
	out->ops = s.count;
	out->wall_ns = near_histogram_snapshot_percentile(&s, 50).high * s.count;
	out->p99_ns = near_histogram_snapshot_percentile(&s, 99).high;
	out->p999_ns = near_histogram_snapshot_percentile(&s, 99.9).high;
	out->longest_ns = near_histogram_snapshot_max(&s).high;
	near_histogram_snapshot_free(&s);
	return 0;
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

#define NEEDS(what, is_there, why_not)                                                             \
	const char *bench_needs_##what(void)                                                       \
	{                                                                                          \
		struct near_rseq_status st;                                                        \
                                                                                                   \
		near_rseq_status(&st, sizeof(st));                                                 \
		return !st.live ? st.why : is_there ? NULL : why_not;                              \
	}
NEEDS(live, true, NULL)
NEEDS(cid, st.has_cid, "the kernel has no concurrency ids (Linux 6.3)")
NEEDS(own_area, st.own_area, "the C library registered rseq all the same")
