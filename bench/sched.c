/* SPDX-License-Identifier: MIT */
/* sched: what a registered rseq costs the scheduler, by `perf bench sched`.
 *
 * The kernel writes the thread's numbers when it returns to user space after a switch. perf itself
 * runs no sequences: its glibc registers every thread or, by the tunable, none.
 */
#include "bench.h"
#include "clock.h"
#include "common/installed.h"

#include <errno.h>
#include <stdio.h>

#define GROUPS 2
#define PAIRS 20 /* senders and receivers of a group, each sends to all of its receivers */
#define MOST_INSTANCES 10

static const char *missing_perf(void)
{
	char path[PATH_MAX];

	return find_in_path("perf", path) ? "perf is not installed (linux-perf)" : NULL;
}

/* Runs instances of perf at the same time. Of several the wall time is from the first one's start
 * to the last one's end, as none of them measures all; user and system time are those of all
 * processes. */
static int run_perf(struct bench_run *run, const char *arguments, unsigned instances,
		    struct bench_sample *out)
{
	char command[120];
	double seconds = 0;
	uint64_t begin = now_ns();
	FILE *perf[MOST_INSTANCES];
	unsigned started = 0;
	int err = 0;

	/* exec: its times are those of a child of this process. */
	snprintf(command, sizeof(command), "exec perf bench -f simple sched %s 2>/dev/null",
		 arguments);
	while (started < instances && (perf[started] = popen(command, "re")))
		started++;
	if (started < instances)
		err = -errno;
	for (unsigned i = 0; i < started; i++) {
		if (fscanf(perf[i], "%lf", &seconds) != 1)
			run->wrong = "perf bench printed no time";
		if (pclose(perf[i]))
			run->wrong = "perf bench failed";
	}
	out->wall_ns = instances > 1 ? now_ns() - begin : (uint64_t)(seconds * 1e9);
	add_usage(RUSAGE_CHILDREN, 1, &out->user_ns, &out->system_ns);
	return err;
}

static int run_messaging(struct bench_run *run, struct bench_sample *out, unsigned instances,
			 unsigned groups_of_each, const char *threads)
{
	char arguments[64];

	snprintf(arguments, sizeof(arguments), "messaging -g %u -l %llu %s", groups_of_each,
		 (unsigned long long)run->iterations, threads);
	*out = (struct bench_sample){.ops = run->iterations * instances * groups_of_each * PAIRS *
					    PAIRS};
	return run_perf(run, arguments, instances, out);
}

BENCH_RUN(run_processes, run_messaging(run, out, 1, GROUPS, ""))
BENCH_RUN(run_threads, run_messaging(run, out, 1, GROUPS, "-t"))
BENCH_RUN(run_two, run_messaging(run, out, 2, GROUPS, "-t"))
BENCH_RUN(run_ten, run_messaging(run, out, 10, 1, "-t"))

static int run_pipe(struct bench_run *run, struct bench_sample *out)
{
	char arguments[64];

	snprintf(arguments, sizeof(arguments), "pipe -l %llu", (unsigned long long)run->iterations);
	*out = (struct bench_sample){.ops = run->iterations};
	return run_perf(run, arguments, 1, out);
}

#define SCHED(id, part, title, op, text, how, ...)                                                 \
	static const struct bench_row id##_rows[] = {                                              \
		{"off", "rseq not registered", .tunables = "glibc.pthread.rseq=0",                 \
		 .missing = missing_perf, .run = how},                                             \
		{"on", "rseq registered", BENCH_OURS, .tunables = "glibc.pthread.rseq=1",          \
		 .missing = missing_perf, .run = how},                                             \
	};                                                                                         \
	BENCH(bench_sched_##id, "sched", part, "Scheduler: " title, op,                            \
	      "What it costs the scheduler that every thread is registered for rseq. perf bench "  \
	      "sched " text,                                                                       \
	      id##_rows, .threads = 1, .fixed_threads = true, __VA_ARGS__)

SCHED(processes, "processes", "messages between processes", "a message",
      "messaging: 80 processes in two groups.", run_processes, .iterations = 300, .core = true);
SCHED(threads, "threads", "messages between threads", "a message",
      "messaging -t: 80 threads in two groups.", run_threads, .iterations = 300, .core = true);
SCHED(two, "two", "messages between threads, two instances", "a message",
      "messaging -t, twice at the same time: 80 threads each.", run_two, .iterations = 150);
SCHED(ten, "ten", "messages between threads of ten processes", "a message",
      "messaging -t, ten times at the same time: 40 threads each.", run_ten, .iterations = 60);
SCHED(pipe, "pipe", "two processes and a pipe", "a round trip", "pipe: a byte goes there and back.",
      run_pipe, .iterations = 20000, .core = true);
