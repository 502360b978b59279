/* SPDX-License-Identifier: MIT */
/* usage: PROGRAM ROW THREADS MS [--inside NS] [--writes N] [--stand-by N] [--rate R]
 *        [--case NAME]
 *
 * Measures one row in two windows of MS ms: one for the throughput, one in which each wait is
 * timed. Prints one JSON object: the sums of the first window, the fewest and the most operations
 * of a thread, the waits of the second; or why there is nothing.
 *
 * --inside: how long a section is; outside of it twice that, at least 10 ns; of sections of 0 ns
 * nothing. --writes: of 1,000 sections. --stand-by: N more threads that wait. --rate: rounds of the
 * delay loop in a ns, from the answer of an earlier run: so that sections of all rows are of one
 * length. --case: which of several things a row does. */
#include "locks/window.h"

#include <nearcpu/histogram.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define MAX_THREADS 9216
#define STACK_BYTES ((size_t)64 * 1024)
#define SETTLE_US 20000 /* for the waiting threads to fall asleep */

static struct {
	struct window_row row;
	unsigned threads, window_ms, inside_ns, stand_by;
	double rate;
	const char *what;
} request;

static struct window window;
static struct window_thread *threads;

struct totals {
	uint64_t ops, counted, least, most, wall_ns, user_ns, system_ns;
};

static struct totals totals;        /* of the window that runs */
static struct near_histogram waits; /* in ns; of the second one */

/* On standard output, where the command reads it. */
void window_give_up(const char *what, const char *why)
{
	printf("{\"%s\":\"%s\"}\n", what, why);
	exit(fflush(stdout) ? 1 : 0);
}

__attribute__((noinline, aligned(64))) void window_rounds(uint32_t rounds)
{
	uint64_t product = rounds;

	for (; rounds; rounds--) {
		product *= product;
		__asm__ volatile("" : "+r"(product)); /* the compiler must keep it */
	}
}

/* By CPU time: on a busy machine the loop is interrupted again and again. */
static double calibrate(void)
{
	const uint32_t rounds = 1000000;
	double best = 0;

	for (int i = 0; i < 20; i++) {
		uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		double rate;

		window_spin(rounds);
		rate = rounds / (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - began);
		best = rate > best ? rate : best;
	}
	return best;
}

struct start {
	void (*work)(struct window_thread *t);
	struct window_thread *thread;
	pthread_barrier_t *barrier; /* NULL: none */
	pthread_t id;
};

static void *start_work(void *arg)
{
	struct start *s = arg;

	if (s->barrier)
		pthread_barrier_wait(s->barrier);
	s->work(s->thread);
	return NULL;
}

static void locks_start(struct start *s)
{
	if (start_thread(&s->id, STACK_BYTES + (size_t)PTHREAD_STACK_MIN, start_work, s))
		window_give_up("error",
			       "the system allows fewer threads (see ulimit -u and the limits "
			       "of the control group); ask for fewer");
}

/* Adds `sign` times the clocks' times to the totals. */
static void add_times(uint64_t sign)
{
	totals.wall_ns += sign * window_ns();
	add_usage(RUSAGE_SELF, sign, &totals.user_ns, &totals.system_ns);
}

static const char *find_wrong(void)
{
	if (request.row.check)
		return request.row.check(&window, threads);
	if (!request.row.is_unlocked && totals.counted != window.count)
		return "wrong result: two threads were in the section together";
	return NULL;
}

static void add_up(void)
{
	const char *wrong;

	totals.least = UINT64_MAX;
	for (unsigned i = 0; i < request.threads; i++) {
		uint64_t done = threads[i].done;

		totals.ops += done;
		totals.counted += threads[i].counted;
		totals.least = done < totals.least ? done : totals.least;
		totals.most = done > totals.most ? done : totals.most;
	}
	wrong = find_wrong();
	if (wrong)
		window_give_up("error", wrong);
}

/* The waiting threads first. */
static void start_all(struct start *starts, unsigned all, void (*work)(struct window_thread *t),
		      pthread_barrier_t *barrier)
{
	for (unsigned i = all; i-- > 0;) {
		bool works = i < request.threads;

		threads[i].window = &window;
		threads[i].index = i;
		starts[i] = (struct start){works ? work : request.row.stand_by, &threads[i],
					   works ? barrier : NULL, 0};
		locks_start(&starts[i]);
		if (i == request.threads)
			usleep(SETTLE_US);
	}
}

static void on_alarm(int sig)
{
	(void)sig;
	__atomic_store_n(&window.stop, 1, __ATOMIC_RELEASE);
}

/* Without a second thread a signal ends the window: a process of one thread is what some locks are
 * quicker in. */
static void run_alone(void (*work)(struct window_thread *t))
{
	struct itimerval end = {
		.it_value = {request.window_ms / 1000, request.window_ms % 1000 * 1000}};
	struct sigaction action = {.sa_handler = on_alarm};

	if (request.threads != 1)
		window_give_up("error", "this is about one thread");
	threads[0].window = &window;
	sigaction(SIGALRM, &action, NULL);
	add_times(-1);
	setitimer(ITIMER_REAL, &end, NULL);
	work(&threads[0]);
	add_times(1);
}

static void run_threads(void (*work)(struct window_thread *t))
{
	unsigned all = request.threads + request.stand_by;
	struct start *starts = calloc(all, sizeof(*starts));
	pthread_barrier_t barrier;

	if (!starts)
		window_give_up("error", "not enough memory");
	pthread_barrier_init(&barrier, NULL, request.threads + 1);
	start_all(starts, all, work, &barrier);
	pthread_barrier_wait(&barrier);
	add_times(-1);
	usleep(request.window_ms * 1000);
	__atomic_store_n(&window.stop, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < request.threads; i++)
		pthread_join(starts[i].id, NULL);
	add_times(1);
	for (unsigned i = request.threads; i < all; i++) {
		request.row.end_stand_by(&threads[i]);
		pthread_join(starts[i].id, NULL);
	}
	pthread_barrier_destroy(&barrier);
	free(starts);
}

static void run_window(void (*work)(struct window_thread *t))
{
	memset(threads, 0, (request.threads + request.stand_by) * sizeof(*threads));
	memset(&totals, 0, sizeof(totals));
	window.count = 0;
	window.stop = 0;
	request.row.init(&window);
	if (window.alone)
		run_alone(work);
	else
		run_threads(work);
	add_up();
}

void window_record(uint64_t ns) { near_histogram_record(&waits, ns); }

static void print_waits(void)
{
	struct near_histogram_snapshot s;

	if (near_histogram_read(&waits, &s))
		window_give_up("error", "not enough memory");
	printf(",\"p99_ns\":%llu,\"p999_ns\":%llu,\"longest_ns\":%llu}\n",
	       (unsigned long long)near_histogram_snapshot_percentile(&s, 99).high,
	       (unsigned long long)near_histogram_snapshot_percentile(&s, 99.9).high,
	       (unsigned long long)near_histogram_snapshot_max(&s).high);
	near_histogram_snapshot_free(&s);
}

static void print_totals(const struct totals *t)
{
	printf("{\"ops\":%llu,\"wall_ns\":%llu,\"user_ns\":%llu,\"system_ns\":%llu,"
	       "\"least\":%llu,\"most\":%llu,\"rate\":%.9g",
	       (unsigned long long)t->ops, (unsigned long long)t->wall_ns,
	       (unsigned long long)t->user_ns, (unsigned long long)t->system_ns,
	       (unsigned long long)t->least, (unsigned long long)t->most, request.rate);
}

static int wrong_usage(const char *program)
{
	fprintf(stderr,
		"usage: %s ROW THREADS MS [--inside NS] [--writes N] [--stand-by N] [--rate R]\n"
		"       [--case NAME]\n"
		"rows:",
		program);
	for (unsigned i = 0; window_rows[i]; i++)
		fprintf(stderr, " %s", window_rows[i]->name);
	fputc('\n', stderr);
	return 2;
}

static bool read_number(const char *text, unsigned least, unsigned most, unsigned *out)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	*out = (unsigned)n;
	return *text >= '0' && *text <= '9' && !*end && n >= least && n <= most;
}

static bool read_option(int c)
{
	char *end;

	switch (c) {
	case 'i':
		return read_number(optarg, 0, 1000000, &request.inside_ns);
	case 'w':
		return read_number(optarg, 0, 1000, &window.writes);
	case 's':
		return read_number(optarg, 0, MAX_THREADS / 2, &request.stand_by);
	case 'c':
		request.what = optarg;
		return true;
	case 'r':
		request.rate = strtod(optarg, &end);
		return request.rate > 0 && request.rate < 1e6 && !*end;
	default:
		return false;
	}
}

static bool read_options(int argc, char **argv)
{
	static const struct option names[] = {{"inside", required_argument, NULL, 'i'},
					      {"writes", required_argument, NULL, 'w'},
					      {"stand-by", required_argument, NULL, 's'},
					      {"rate", required_argument, NULL, 'r'},
					      {"case", required_argument, NULL, 'c'},
					      {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
		if (!read_option(c))
			return false;
	if (argc - optind != 3)
		return false;
	for (unsigned i = 0; window_rows[i]; i++)
		if (strcmp(window_rows[i]->name, argv[optind]) == 0)
			request.row = *window_rows[i];
	return request.row.name &&
	       (!request.what || (request.row.choose && request.row.choose(request.what))) &&
	       read_number(argv[optind + 1], 1, MAX_THREADS / 2, &request.threads) &&
	       read_number(argv[optind + 2], 1, 3600000, &request.window_ms);
}

static void load_row(struct window_row *row)
{
	const struct window_row *loaded = symbol_beside(row->module, row->symbol);

	if (!loaded)
		return;
	row->missing = NULL;
	row->init = loaded->init;
	row->work = loaded->work;
	row->timed = loaded->timed;
	if (loaded->check)
		row->check = loaded->check;
}

static void set_lengths(void)
{
	unsigned inside = request.inside_ns, outside = 2 * inside;

	if (inside && outside < 10)
		outside = 10;
	window.inside = (uint32_t)(inside * request.rate);
	window.outside = (uint32_t)(outside * request.rate);
}

int main(int argc, char **argv)
{
	struct totals first;

	if (!read_options(argc, argv))
		return wrong_usage(argv[0]);
	if (request.row.module)
		load_row(&request.row);
	if (request.row.missing)
		window_give_up("missing", request.row.missing);
	if (request.stand_by && !request.row.stand_by)
		window_give_up("error", "this row has no waiting threads");
	window.threads = request.threads;
	threads = aligned_alloc(LINE, (request.threads + request.stand_by) * sizeof(*threads));
	if (!threads || near_histogram_init(&waits, NULL))
		window_give_up("error", "not enough memory");
	if (request.rate <= 0)
		request.rate = calibrate();
	set_lengths();
	run_window(request.row.work);
	first = totals;
	run_window(request.row.timed);
	print_totals(&first);
	print_waits();
	return fflush(stdout) ? 1 : 0;
}
