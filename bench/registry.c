/* SPDX-License-Identifier: MIT */
/* registry: every benchmark, in the order in which they run and are shown. */
#include "bench.h"

extern const struct bench bench_hitcounter;
extern const struct bench bench_list;
extern const struct bench bench_refcount;
extern const struct bench bench_cpuid;
extern const struct bench bench_counter;
extern const struct bench bench_calls;
extern const struct bench bench_across;
extern const struct bench bench_memory;
extern const struct bench bench_sched_processes;
extern const struct bench bench_sched_threads;
extern const struct bench bench_sched_pipe;

const struct bench *const bench_registry[] = {
	&bench_hitcounter,      &bench_list,          &bench_refcount,   &bench_cpuid,
	&bench_counter,         &bench_calls,         &bench_across,     &bench_memory,
	&bench_sched_processes, &bench_sched_threads, &bench_sched_pipe, NULL,
};
