/* SPDX-License-Identifier: MIT */
/* usage: nearcpu-locks [--threads N,...] [--inside NS,...] [--only NAME,...] [--rounds N]
 *                      [--window MS]
 *
 * Threads that take one lock: throughput as a ratio to pthread_mutex's, the fewest acquisitions of
 * a thread to the most, p99.9 of an acquisition, CPU time to wall time. Each figure is the median
 * of so many windows; the windows of the locks take turns. */
#define _GNU_SOURCE
#include "rows.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_THREADS 64
#define MAX_ROUNDS 99
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct window_row *const rows[] = {
	&row_unlocked, &row_pthread, &row_adaptive, &row_mutex,       &row_lock,
	&row_nsync,    &row_absl,    &row_ck,       &row_parking_lot, &row_rust_std,
};

struct list {
	unsigned at[16], n;
};

static struct {
	struct list threads, inside;
	const char *only;
	unsigned rounds, window_ms;
} options = {{{1, 2, 4, 8}, 4}, {{1, 10, 100}, 3}, NULL, 5, 200};

static struct figures {
	double speed[MAX_ROUNDS], fairness[MAX_ROUNDS], wait[MAX_ROUNDS], cpu[MAX_ROUNDS];
} figures[COUNT(rows)];

static double spins_per_ns;

static void calibrate(void)
{
	for (int i = 0; i < 5; i++) {
		uint64_t began = window_ns();
		double rate;

		window_spin(20000000);
		rate = 20000000.0 / (double)(window_ns() - began);
		spins_per_ns = rate > spins_per_ns ? rate : spins_per_ns;
	}
}

struct start {
	struct window_thread *thread;
	void (*work)(struct window_thread *t);
	pthread_barrier_t *barrier;
	pthread_t id;
};

static void *start_work(void *arg)
{
	struct start *s = arg;

	pthread_barrier_wait(s->barrier);
	s->work(s->thread);
	return NULL;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static struct window window;
static struct window_thread threads[MAX_THREADS];

/* Seconds of the window; *cpu those of all threads. */
static double run_window(const struct window_row *row, bool timed, unsigned n, double *cpu)
{
	struct start starts[MAX_THREADS];
	pthread_barrier_t barrier;
	uint64_t began;

	memset(threads, 0, sizeof(threads));
	window.count = 0;
	window.stop = 0;
	row->init(&window);
	pthread_barrier_init(&barrier, NULL, n + 1);
	for (unsigned i = 0; i < n; i++) {
		threads[i].window = &window;
		starts[i] =
			(struct start){&threads[i], timed ? row->timed : row->work, &barrier, 0};
		if (pthread_create(&starts[i].id, NULL, start_work, &starts[i])) {
			fprintf(stderr, "nearcpu-locks: cannot start %u threads\n", n);
			exit(1);
		}
	}
	pthread_barrier_wait(&barrier);
	began = window_ns();
	*cpu = cpu_seconds();
	usleep(options.window_ms * 1000);
	__atomic_store_n(&window.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < n; i++)
		pthread_join(starts[i].id, NULL);
	*cpu = cpu_seconds() - *cpu;
	pthread_barrier_destroy(&barrier);
	return (double)(window_ns() - began) / 1e9;
}

static double percentile(unsigned n, double part)
{
	uint64_t total = 0, seen = 0;

	for (unsigned i = 0; i < n; i++)
		for (unsigned b = 0; b < BUCKETS; b++)
			total += threads[i].waits[b];
	for (unsigned b = 0; b < BUCKETS; b++) {
		for (unsigned i = 0; i < n; i++)
			seen += threads[i].waits[b];
		if ((double)seen >= part * (double)total)
			return b < 16 ? b : (double)((8 + b % 8) * (1ull << (b / 8 - 1)));
	}
	return 0;
}

static void measure(unsigned r, unsigned round, unsigned n)
{
	uint64_t least = UINT64_MAX, most = 0, sum = 0;
	double cpu, seconds = run_window(rows[r], false, n, &cpu);

	for (unsigned i = 0; i < n; i++) {
		uint64_t done = threads[i].done;

		sum += done;
		least = done < least ? done : least;
		most = done > most ? done : most;
	}
	if (rows[r] != &row_unlocked && sum != window.count) {
		fprintf(stderr, "nearcpu-locks: %s does not exclude: %llu of %llu\n", rows[r]->name,
			(unsigned long long)window.count, (unsigned long long)sum);
		exit(1);
	}
	figures[r].speed[round] = (double)sum / seconds;
	figures[r].fairness[round] = (double)least / (double)most;
	figures[r].cpu[round] = cpu / seconds;
	run_window(rows[r], true, n, &cpu);
	figures[r].wait[round] = percentile(n, 0.999);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *of)
{
	qsort(of, options.rounds, sizeof(*of), compare);
	return of[options.rounds / 2];
}

static bool is_wanted(unsigned r)
{
	return !rows[r]->missing &&
	       (!options.only || rows[r] == &row_pthread || strstr(options.only, rows[r]->name));
}

/* Sections of 0 ns, by one thread: what the lock costs. */
static unsigned outside_of(unsigned inside)
{
	if (inside == 0)
		return 0;
	return inside < 5 ? 10 : 2 * inside;
}

static void run_cell(unsigned n, unsigned inside)
{
	double base = 0;

	window.inside = (uint32_t)(inside * spins_per_ns);
	window.outside = (uint32_t)(outside_of(inside) * spins_per_ns);
	for (unsigned round = 0; round < options.rounds; round++)
		for (unsigned r = 0; r < COUNT(rows); r++)
			if (is_wanted(r))
				measure(r, round, n);
	printf("\n%u threads, sections of %u ns\n%-12s %8s %8s %8s %10s %6s\n", n, inside, "", "ns",
	       "ratio", "fairness", "p99.9 ns", "cpu");
	for (unsigned r = 0; r < COUNT(rows); r++)
		if (rows[r] == &row_pthread)
			base = median(figures[r].speed);
	for (unsigned r = 0; r < COUNT(rows); r++)
		if (is_wanted(r)) {
			double speed = median(figures[r].speed);

			printf("%-12s %8.1f %8.2f %8.2f %10.0f %6.2f\n", rows[r]->name, 1e9 / speed,
			       speed / base, median(figures[r].fairness), median(figures[r].wait),
			       median(figures[r].cpu));
		}
	fflush(stdout);
}

static void read_list(struct list *l, const char *text)
{
	char *end;

	for (l->n = 0; l->n < COUNT(l->at); text = end + 1) {
		l->at[l->n++] = (unsigned)strtoul(text, &end, 10);
		if (*end != ',')
			return;
	}
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{"threads", required_argument, NULL, 't'}, {"inside", required_argument, NULL, 'i'},
		{"only", required_argument, NULL, 'o'},    {"rounds", required_argument, NULL, 'r'},
		{"window", required_argument, NULL, 'w'},  {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (c == 't')
			read_list(&options.threads, optarg);
		else if (c == 'i')
			read_list(&options.inside, optarg);
		else if (c == 'o')
			options.only = optarg;
		else if (c == 'r')
			options.rounds = (unsigned)atoi(optarg);
		else if (c == 'w')
			options.window_ms = (unsigned)atoi(optarg);
		else
			exit(2);
	}
	if (options.rounds < 1 || options.rounds > MAX_ROUNDS || options.window_ms < 1) {
		fprintf(stderr, "nearcpu-locks: 1 to %d rounds, windows of 1 ms and more\n",
			MAX_ROUNDS);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	read_options(argc, argv);
	calibrate();
	for (unsigned r = 0; r < COUNT(rows); r++)
		if (rows[r]->missing)
			printf("%s: missing (%s)\n", rows[r]->name, rows[r]->missing);
	for (unsigned i = 0; i < options.inside.n; i++)
		for (unsigned t = 0; t < options.threads.n; t++)
			if (options.threads.at[t] >= 1 && options.threads.at[t] <= MAX_THREADS)
				run_cell(options.threads.at[t], options.inside.at[i]);
	return 0;
}
