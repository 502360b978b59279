/* SPDX-License-Identifier: MIT */
/* trace: how long single events take, in two threads. */
#include "bench.h"

#include <nearcpu/histogram.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "trace.h"

#define THREADS 2
#define EVENTS_PER_CHECK 64

static struct near_histogram times;
static pthread_barrier_t begin;

struct tracer {
	pthread_t thread;
	uint64_t window_ns, events;
};

/* The clock is read around each event. */
static void *trace(void *arg)
{
	struct tracer *t = arg;
	uint64_t end, before, after;

	trace_impl->number(1);
	pthread_barrier_wait(&begin);
	end = trace_now() + t->window_ns;
	t->events = 1;
	do {
		for (int i = 0; i < EVENTS_PER_CHECK; i++) {
			before = trace_now();
			trace_impl->number(1);
			after = trace_now();
			near_histogram_record(&times, after - before);
		}
		t->events += EVENTS_PER_CHECK;
	} while (after < end);
	return NULL;
}

static void add_times(struct bench_sample *out)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	out->user_ns =
		(uint64_t)u.ru_utime.tv_sec * 1000000000u + (uint64_t)u.ru_utime.tv_usec * 1000u;
	out->system_ns =
		(uint64_t)u.ru_stime.tv_sec * 1000000000u + (uint64_t)u.ru_stime.tv_usec * 1000u;
}

/* The wall time is the median's. */
static int sum_up(struct bench_sample *out)
{
	struct near_snapshot s;
	int err = near_histogram_read(&times, &s);

	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	out->ops = s.count;
	out->wall_ns = near_snapshot_percentile(&s, 50).high * s.count;
	out->p99_ns = near_snapshot_percentile(&s, 99).high;
	out->p999_ns = near_snapshot_percentile(&s, 99.9).high;
	out->longest_ns = near_snapshot_max(&s).high;
	near_snapshot_free(&s);
	add_times(out);
	return 0;
}

/* run->iterations: the window, in ms. */
static int run_single(struct bench_run *run, struct bench_sample *out)
{
	struct tracer tracers[THREADS] = {0};
	int err = near_histogram_init(&times, NULL);

	if (!err && trace_impl->init)
		err = trace_impl->init();
	if (err)
		return err;
	pthread_barrier_init(&begin, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		tracers[i].window_ns = run->iterations * 1000000;
		if (pthread_create(&tracers[i].thread, NULL, trace, &tracers[i]))
			abort();
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(tracers[i].thread, NULL);
		run->done += tracers[i].events;
	}
	if (trace_impl->check)
		run->wrong = trace_impl->check(run->done);
	return sum_up(out);
}

#define ROW(id, name, label, whose, ...)                                                           \
	{                                                                                          \
		name, label, whose, .missing = trace_choose_##id, .run = run_single, __VA_ARGS__   \
	}
static const struct bench_row rows[] = {
	ROW(fprintf, "fprintf", "a line by fprintf", BENCH_PEER),
	ROW(spdlog, "spdlog", "spdlog, asynchronous", BENCH_PEER),
	ROW(lttng, "lttng", "LTTng-UST", BENCH_PEER, .tunables = TRACE_TLS),
	ROW(near, "near", "near_trace, the counter", BENCH_OURS),
	ROW(near_monotonic, "near-monotonic", "near_trace, CLOCK_MONOTONIC", BENCH_OURS),
	ROW(gettimes, "clock", "clock_gettime", BENCH_YARDSTICK),
};

static const struct bench_figure figures[] = {
	{"p99.9 against LTTng-UST's", "near", "lttng", .measure = BENCH_P999, .goal = 1},
};

const struct bench bench_trace_latency = {
	.name = "trace",
	.part = "latency",
	.title = "Single events, 2 threads",
	.text = "Each of two threads reads the clock before and after each event with a number of "
		"32 bits, which is part of the times. They are medians and percentiles. ",
	.op = "an event",
	.kind = BENCH_WAIT,
	.latency = true,
	.rows = rows,
	.row_count = BENCH_COUNT(rows),
	.figures = figures,
	.figure_count = BENCH_COUNT(figures),
	.against = "lttng",
	.window_ms = 100,
	.threads = THREADS,
	.fixed_threads = true,
};
