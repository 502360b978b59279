/* SPDX-License-Identifier: MIT */
/* threads: runs a row's work in several threads concurrently and measures it.
 *
 * All threads are started, prepared and warmed up first, then started together. Each measures its
 * own CPU time, so that waiting at the start counts for nobody; wall time is from the first start
 * to the last end.
 */
#include "bench.h"
#include "clock.h"

#include <errno.h>
#include <pthread.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define STACK_BYTES ((size_t)128 * 1024)
#define WARM_UP 1000
#define PILOT_FIRST 256
#define PILOT_CPU_NS 1000000   /* long enough: of CPU time a thread, */
#define PILOT_WALL_NS 50000000 /* or of waiting for each other */
#define PILOT_TRIES 3

/* Both words are futexes. A waiter polls for a moment first, so that on a machine with enough CPUs
 * all threads start together, and then sleeps, so that on a busy one it takes no CPU time. */
struct gate {
	atomic_uint arrived;
	atomic_uint state;
};

enum { GATE_WAIT, GATE_GO, GATE_GIVE_UP };

#define POLLS 50000

/* Waits until *word is no longer `old`; returns what it is. acquire pairs with the release of the
 * thread that changes it. */
static unsigned wait_while(atomic_uint *word, unsigned old)
{
	unsigned now;

	for (int i = 0; (now = atomic_load_explicit(word, memory_order_acquire)) == old; i++)
		if (i >= POLLS)
			syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
	return now;
}

static void wake_all(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

struct worker {
	struct bench_thread thread;
	const struct bench_row *row;
	struct gate *gate;
	pthread_t id;
	const char *wrong;
	uint64_t start, end, user_ns, system_ns;
};

/* The clock gives the exact sum, and brings up to date what getrusage then divides by ticks. */
static uint64_t cpu_time(struct rusage *split)
{
	uint64_t ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	getrusage(RUSAGE_THREAD, split);
	return ns;
}

static uint64_t scale(uint64_t n, uint64_t part, uint64_t whole)
{
	return (uint64_t)((double)n * (double)part / (double)whole);
}

static void work_timed(struct worker *w)
{
	struct rusage before, after;
	uint64_t cpu, user, system;

	cpu = cpu_time(&before);
	w->start = clock_ns(CLOCK_MONOTONIC);
	w->row->work(&w->thread);
	w->end = clock_ns(CLOCK_MONOTONIC);
	cpu = cpu_time(&after) - cpu;

	user = timeval_ns(after.ru_utime) - timeval_ns(before.ru_utime);
	system = timeval_ns(after.ru_stime) - timeval_ns(before.ru_stime);
	w->system_ns = user + system ? scale(cpu, system, user + system) : 0;
	w->user_ns = cpu - w->system_ns;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	uint64_t iterations = w->thread.iterations;

	if (w->row->prepare)
		w->wrong = w->row->prepare(&w->thread);
	if (w->thread.iterations > WARM_UP)
		w->thread.iterations = WARM_UP;
	w->row->work(&w->thread);
	w->thread.iterations = iterations;

	/* release: what this thread prepared is seen by all, by way of the main thread. */
	atomic_fetch_add_explicit(&w->gate->arrived, 1, memory_order_release);
	wake_all(&w->gate->arrived);
	if (wait_while(&w->gate->state, GATE_WAIT) == GATE_GO)
		work_timed(w);
	return NULL;
}

static int start_workers(struct worker *workers, unsigned n, unsigned *started)
{
	int err = 0;

	for (*started = 0; *started < n && !err; *started += !err)
		err = start_thread(&workers[*started].id, STACK_BYTES, worker_main,
				   &workers[*started]);
	return -err;
}

static void sum_up(const struct worker *workers, struct bench_run *run, struct bench_sample *out)
{
	uint64_t start = UINT64_MAX, end = 0;
	unsigned i;

	*out = (struct bench_sample){0};
	for (i = 0; i < run->threads; i++) {
		if (workers[i].wrong)
			run->wrong = workers[i].wrong;
		if (workers[i].start < start)
			start = workers[i].start;
		if (workers[i].end > end)
			end = workers[i].end;
		out->user_ns += workers[i].user_ns;
		out->system_ns += workers[i].system_ns;
		out->ops += workers[i].thread.iterations;
	}
	out->wall_ns = end - start;
}

static int measure_once(const struct bench_row *row, struct bench_run *run, uint64_t iterations,
			struct bench_sample *out)
{
	struct gate gate = {0};
	struct worker *workers = calloc(run->threads, sizeof(*workers));
	unsigned i, started;
	int err;

	if (!workers)
		return -ENOMEM;
	for (i = 0; i < run->threads; i++)
		workers[i] = (struct worker){
			.thread = {.run = run, .index = i, .iterations = iterations},
			.row = row,
			.gate = &gate,
		};
	err = start_workers(workers, run->threads, &started);
	for (i = 0; !err && i < run->threads;)
		i = wait_while(&gate.arrived, i);
	atomic_store_explicit(&gate.state, err ? GATE_GIVE_UP : GATE_GO, memory_order_release);
	wake_all(&gate.state);
	for (i = 0; i < started; i++)
		pthread_join(workers[i].id, NULL);
	if (!err) {
		sum_up(workers, run, out);
		run->done +=
			out->ops + run->threads * (iterations < WARM_UP ? iterations : WARM_UP);
	}
	free(workers);
	return err;
}

/* Grows the number of iterations until a run is long enough to measure one. Of several runs the
 * shortest counts: on a busy machine a thread may have to wait for its CPU. */
static int pilot(const struct bench_row *row, struct bench_run *run, struct bench_sample *out)
{
	uint64_t iterations = PILOT_FIRST;
	struct bench_sample s;
	int err, tries = 0;

	do {
		err = measure_once(row, run, iterations, &s);
		if (err)
			return err;
		if ((s.user_ns + s.system_ns) / run->threads < PILOT_CPU_NS &&
		    s.wall_ns < PILOT_WALL_NS && iterations < UINT64_MAX / 8)
			iterations *= 8;
		else if (!tries++ || s.wall_ns < out->wall_ns)
			*out = s;
	} while (tries < PILOT_TRIES && out->wall_ns < PILOT_WALL_NS);
	return 0;
}

int bench_measure(const struct bench_row *row, struct bench_run *run, struct bench_sample *out)
{
	int err = row->setup ? row->setup(run) : 0;

	*out = (struct bench_sample){0};
	if (err)
		return err;
	if (row->run)
		return row->run(run, out);
	err = run->iterations ? measure_once(row, run, run->iterations, out) : pilot(row, run, out);
	if (!err && !run->wrong && row->check)
		run->wrong = row->check(run);
	return err;
}
