/* SPDX-License-Identifier: MIT */
/* sched: what a registered rseq costs the scheduler, by `perf bench sched`.
 *
 * The kernel writes the thread's numbers when it returns to user space after a switch. perf itself
 * runs no sequences: its glibc registers every thread or, by the tunable, none.
 */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GROUPS 2
#define PAIRS 20 /* senders and receivers of a group, each sends to all of its receivers */
#define MOST_INSTANCES 10

static const char *missing_perf(void)
{
	static const char text[] = "perf is not installed (linux-perf)";
	const char *path = getenv("PATH");
	char file[4096];

	while (path && *path) {
		size_t n = strcspn(path, ":");

		snprintf(file, sizeof(file), "%.*s/perf", (int)n, path);
		if (access(file, X_OK) == 0)
			return NULL;
		path += n + (path[n] == ':');
	}
	return text;
}

/* Starts perf with its standard output as the pipe *fd. */
static int start_perf(const char *const argv[], int *fd, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	char *const *args;
	int ends[2], err;

	if (pipe(ends))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	/* spawn promises not to write, its prototype does not. */
	memcpy(&args, &argv, sizeof(args));
	err = posix_spawnp(pid, argv[0], &actions, NULL, args, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (err)
		close(ends[0]);
	*fd = ends[0];
	return -err;
}

static uint64_t ns_of(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000000u + (uint64_t)tv->tv_usec * 1000u;
}

/* Reads the time that perf prints, and waits for its end. 0, or a negative errno. */
static int end_perf(struct bench_run *run, int fd, pid_t pid, double *seconds)
{
	FILE *f = fdopen(fd, "r");
	int status = 0;

	if (!f || fscanf(f, "%lf", seconds) != 1)
		run->wrong = "perf bench printed no time";
	if (f)
		fclose(f);
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		run->wrong = "perf bench failed";
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Runs instances of perf at the same time. Of several the wall time is from the first one's start
 * to the last one's end, as none of them measures all; user and system time are those of all
 * processes. */
static int run_perf(struct bench_run *run, const char *const argv[], unsigned instances,
		    struct bench_sample *out)
{
	struct rusage usage;
	double seconds = 0;
	uint64_t begin = now_ns();
	pid_t pids[MOST_INSTANCES] = {0};
	int fds[MOST_INSTANCES] = {0}, err = 0;
	unsigned started = 0;

	while (started < instances && !err) {
		err = start_perf(argv, &fds[started], &pids[started]);
		started += !err;
	}
	for (unsigned i = 0; i < started; i++) {
		int ended = end_perf(run, fds[i], pids[i], &seconds);

		err = err ? err : ended;
	}
	if (err)
		return err;
	getrusage(RUSAGE_CHILDREN, &usage);
	out->wall_ns = instances > 1 ? now_ns() - begin : (uint64_t)(seconds * 1e9);
	out->user_ns = ns_of(&usage.ru_utime);
	out->system_ns = ns_of(&usage.ru_stime);
	return 0;
}

static int run_messaging(struct bench_run *run, struct bench_sample *out, unsigned instances,
			 unsigned groups_of_each, const char *threads)
{
	char loops[24], groups[24];
	const char *argv[] = {"perf", "bench", "-f", "simple", "sched", "messaging",
			      "-g",   groups,  "-l", loops,    threads, NULL};

	snprintf(groups, sizeof(groups), "%u", groups_of_each);
	snprintf(loops, sizeof(loops), "%llu", (unsigned long long)run->iterations);
	*out = (struct bench_sample){.ops = run->iterations * instances * groups_of_each * PAIRS *
					    PAIRS};
	return run_perf(run, argv, instances, out);
}

static int run_processes(struct bench_run *run, struct bench_sample *out)
{
	return run_messaging(run, out, 1, GROUPS, NULL);
}

static int run_threads(struct bench_run *run, struct bench_sample *out)
{
	return run_messaging(run, out, 1, GROUPS, "-t");
}

static int run_two(struct bench_run *run, struct bench_sample *out)
{
	return run_messaging(run, out, 2, GROUPS, "-t");
}

static int run_ten(struct bench_run *run, struct bench_sample *out)
{
	return run_messaging(run, out, 10, 1, "-t");
}

static int run_pipe(struct bench_run *run, struct bench_sample *out)
{
	char loops[24];
	const char *argv[] = {"perf", "bench", "-f", "simple", "sched", "pipe", "-l", loops, NULL};

	snprintf(loops, sizeof(loops), "%llu", (unsigned long long)run->iterations);
	*out = (struct bench_sample){.ops = run->iterations};
	return run_perf(run, argv, 1, out);
}

#define OFF_AND_ON(how)                                                                            \
	{                                                                                          \
		{"off", "rseq not registered", .tunables = "glibc.pthread.rseq=0",                 \
		 .missing = missing_perf, .run = how},                                             \
			{"on",                                                                     \
			 "rseq registered",                                                        \
			 BENCH_OURS,                                                               \
			 .tunables = "glibc.pthread.rseq=1",                                       \
			 .missing = missing_perf,                                                  \
			 .run = how},                                                              \
	}

static const struct bench_row process_rows[] = OFF_AND_ON(run_processes);
static const struct bench_row thread_rows[] = OFF_AND_ON(run_threads);
static const struct bench_row two_rows[] = OFF_AND_ON(run_two);
static const struct bench_row ten_rows[] = OFF_AND_ON(run_ten);
static const struct bench_row pipe_rows[] = OFF_AND_ON(run_pipe);

#define COST "What it costs the scheduler that every thread is registered for rseq. "

const struct bench bench_sched_processes = {
	.name = "sched",
	.part = "processes",
	.title = "Scheduler: messages between processes",
	.text = COST "perf bench sched messaging: 80 processes in two groups.",
	.op = "a message",
	.rows = process_rows,
	.row_count = BENCH_COUNT(process_rows),
	.iterations = 300,
	.threads = 1,
	.fixed_threads = true,
	.core = true,
};

const struct bench bench_sched_threads = {
	.name = "sched",
	.part = "threads",
	.title = "Scheduler: messages between threads",
	.text = COST "perf bench sched messaging -t: 80 threads in two groups.",
	.op = "a message",
	.rows = thread_rows,
	.row_count = BENCH_COUNT(thread_rows),
	.iterations = 300,
	.threads = 1,
	.fixed_threads = true,
	.core = true,
};

const struct bench bench_sched_two = {
	.name = "sched",
	.part = "two",
	.title = "Scheduler: messages between threads, two instances",
	.text = COST "perf bench sched messaging -t, twice at the same time: 80 threads each.",
	.op = "a message",
	.rows = two_rows,
	.row_count = BENCH_COUNT(two_rows),
	.iterations = 150,
	.threads = 1,
	.fixed_threads = true,
};

const struct bench bench_sched_ten = {
	.name = "sched",
	.part = "ten",
	.title = "Scheduler: messages between threads of ten processes",
	.text = COST "perf bench sched messaging -t, ten times at the same time: 40 threads each.",
	.op = "a message",
	.rows = ten_rows,
	.row_count = BENCH_COUNT(ten_rows),
	.iterations = 60,
	.threads = 1,
	.fixed_threads = true,
};

const struct bench bench_sched_pipe = {
	.name = "sched",
	.part = "pipe",
	.title = "Scheduler: two processes and a pipe",
	.text = COST "perf bench sched pipe: a byte goes there and back.",
	.op = "a round trip",
	.rows = pipe_rows,
	.row_count = BENCH_COUNT(pipe_rows),
	.iterations = 20000,
	.threads = 1,
	.fixed_threads = true,
	.core = true,
};
