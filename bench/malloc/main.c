/* SPDX-License-Identifier: MIT */
/* usage: nearcpu-malloc-patterns PATTERN THREADS ROUNDS [--latency] [--heap NAME]
 *
 * Runs one pattern and prints what it took, as JSON. ROUNDS are of all threads together; N% is a
 * part of what the pattern has, 0 all of it. CPU time is that of the process from here on: what the
 * loader does for a preloaded library is not in it. */
#include "malloc/pattern.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define STACK_BYTES ((size_t)128 * 1024)
#define MAX_THREADS 8192
#define EVERY 32

#define ADDRESS(name) &pattern_##name,
static const struct pattern *const patterns[] = {PATTERNS(ADDRESS)};

void die(const char *what)
{
	dprintf(STDERR_FILENO, "nearcpu-malloc-patterns: %s\n", what);
	_exit(1);
}

/* getrusage would include the peak of the process that executed this one. */
static uint64_t resident(const char *key)
{
	char text[4096], *at;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

void pause_ms(uint64_t ms)
{
	const struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	nanosleep(&pause, NULL);
}

void note_resident(struct run *run) { run->resident = resident("VmRSS:"); }

static uint64_t result_bytes(const struct pattern *p, const struct run *run)
{
	if (run->resident)
		return run->resident;
	pause_ms(run->pause_ms);
	return resident(p->at_end ? "VmRSS:" : "VmHWM:");
}

struct start {
	struct worker *worker;
	void (*work)(struct worker *w);
	bool meets;
};

static void *thread_main(void *arg)
{
	struct start *s = arg;

	if (s->meets)
		meet(s->worker);
	s->work(s->worker);
	return NULL;
}

static void pattern_start(pthread_t *id, struct start *s)
{
	int err = start_thread(id, STACK_BYTES, thread_main, s);

	if (err)
		die(err == EAGAIN ? "the system allows fewer threads" : strerror(err));
}

void meet(struct worker *w) { pthread_barrier_wait(&w->run->barrier); }

void worker_run(struct worker *w, void (*work)(struct worker *w))
{
	struct start s = {w, work, false};
	pthread_t id;

	pattern_start(&id, &s);
	pthread_join(id, NULL);
}

static void workers_init(struct worker *workers, struct run *run, bool latency)
{
	for (unsigned i = 0; i <= run->threads; i++) {
		struct worker *w = &workers[i];
		uint64_t more = i < run->rounds % run->threads;

		*w = (struct worker){.run = run,
				     .index = i,
				     .rounds = run->rounds / run->threads + more,
				     .random = 0x9e3779b97f4a7c15u * (i + 1),
				     .latency = latency ? latency_new() : NULL};
		if (!w->rounds)
			w->rounds = 1;
		w->interval = w->countdown = latency_next(w);
	}
}

/* A program with one thread has no other. Returns wall time. */
static uint64_t run_threads(const struct pattern *p, struct run *run, struct worker *workers)
{
	pthread_t *ids = malloc(run->threads * sizeof(*ids));
	struct start *starts = malloc(run->threads * sizeof(*starts));
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);

	if (!ids || !starts)
		die("no memory");
	pthread_barrier_init(&run->barrier, NULL, run->threads);
	if (run->threads == 1) {
		p->work(&workers[0]);
		goto out;
	}
	for (unsigned i = 0; i < run->threads; i++) {
		starts[i] = (struct start){&workers[i], p->work, true};
		pattern_start(&ids[i], &starts[i]);
	}
	for (unsigned i = 0; i < run->threads; i++)
		pthread_join(ids[i], NULL);
out:
	free(ids);
	free(starts);
	return clock_ns(CLOCK_MONOTONIC) - begin;
}

/* The file that malloc comes from: a preload that the loader could not find is no error to it. */
static const char *allocator(void)
{
	void *(*volatile address)(size_t n) = malloc;
	Dl_info info;
	void *p;

	memcpy(&p, (void *)&address, sizeof(p));
	return dladdr(p, &info) && info.dli_fname ? info.dli_fname : "";
}

static void run_print(const struct pattern *p, struct run *run, const struct worker *workers,
		      uint64_t wall, uint64_t cpu)
{
	unsigned count = run->threads + 1;
	uint64_t bytes = result_bytes(p, run), calls = 0, in_user = 0, in_system = 0, all;
	double system;

	add_usage(RUSAGE_SELF, 1, &in_user, &in_system);
	all = in_user + in_system;
	system = all ? (double)cpu * (double)in_system / (double)all : 0;
	for (unsigned i = 0; i < count; i++)
		calls += worker_calls(&workers[i]);
	printf("{\"ops\": %llu, \"wall_ns\": %llu, \"user_ns\": %.0f, \"system_ns\": %.0f, "
	       "\"bytes\": %llu, \"p99_ns\": %.0f, \"p999_ns\": %.0f, \"allocator\": \"%s\"}\n",
	       (unsigned long long)calls, (unsigned long long)wall, (double)cpu - system, system,
	       (unsigned long long)bytes,
	       workers->latency ? latency_quantile(workers, count, 0.99) : 0,
	       workers->latency ? latency_quantile(workers, count, 0.999) : 0, allocator());
}

static int usage(void)
{
	fprintf(stderr, "usage: nearcpu-malloc-patterns PATTERN THREADS ROUNDS [--latency] "
			"[--heap malloc|sharded|thread|null]\n");
	return 2;
}

static const struct pattern *find_pattern(const char *name)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (strcmp(patterns[i]->name, name) == 0)
			return patterns[i];
	return NULL;
}

static bool parse(int argc, char **argv, const struct pattern **p, struct run *run, bool *latency)
{
	char *end = argc > 3 ? argv[3] : NULL;

	if (argc < 4)
		return false;
	*p = find_pattern(argv[1]);
	run->threads = (unsigned)strtoul(argv[2], NULL, 10);
	run->rounds = strtoull(argv[3], &end, 10);
	run->heap = heap_find("malloc");
	if (!*p || !run->threads || run->threads > MAX_THREADS || end == argv[3])
		return false;
	if (strcmp(end, "%") == 0)
		run->rounds = (*p)->rounds * run->rounds / 100;
	if (!run->rounds)
		run->rounds = (*p)->rounds;
	for (int i = 4; i < argc; i++)
		if (strcmp(argv[i], "--latency") == 0)
			*latency = true;
		else if (strcmp(argv[i], "--heap") == 0 && i + 1 < argc)
			run->heap = heap_find(argv[++i]);
		else
			return false;
	return run->heap;
}

int main(int argc, char **argv)
{
	uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID), wall;
	const struct pattern *p;
	struct worker *workers;
	struct run run;
	bool latency = false;

	if (!parse(argc, argv, &p, &run, &latency))
		return usage();
	workers = calloc(run.threads + 1, sizeof(*workers));
	if (!workers)
		die("no memory");
	run.resident = run.pause_ms = 0;
	run.every = p->every ? p->every : EVERY;
	workers_init(workers, &run, latency);
	if (p->setup)
		p->setup(&run, &workers[run.threads]);
	wall = run_threads(p, &run, workers);
	run_print(p, &run, workers, wall, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin);
	return fflush(stdout) ? 1 : 0;
}
