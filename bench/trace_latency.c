/* SPDX-License-Identifier: MIT */
/* trace: how long single events take, in two threads. */
#include "bench.h"

#include <nearcpu/histogram.h>
#include <pthread.h>
#include <stdlib.h>

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
	end = now_ns() + t->window_ns;
	t->events = 1;
	do {
		for (int i = 0; i < EVENTS_PER_CHECK; i++) {
			before = now_ns();
			trace_impl->number(1);
			after = now_ns();
			near_histogram_record(&times, after - before);
		}
		t->events += EVENTS_PER_CHECK;
	} while (after < end);
	return NULL;
}

/* run->iterations: the window, in ms. */
static int run_single(struct bench_run *run, struct bench_sample *out)
{
	struct tracer tracers[THREADS] = {0};
	int err = near_histogram_init(&times, NULL);

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
	*out = (struct bench_sample){0};
	add_usage(RUSAGE_SELF, 1, &out->user_ns, &out->system_ns);
	return bench_waits(&times, out);
}

#define ROW(...) TRACE_ROW(__VA_ARGS__, .setup = trace_setup, .run = run_single)
static const struct bench_row rows[] = {
	ROW("fprintf", "fprintf", "a line by fprintf", BENCH_PEER),
	ROW("spdlog", "spdlog", "spdlog, asynchronous", BENCH_PEER),
	ROW("lttng", "lttng", "LTTng-UST", LTTNG),
	ROW("near", "near", "near_trace, the counter", BENCH_OURS),
	ROW("near-monotonic", "near-monotonic", "near_trace, CLOCK_MONOTONIC", BENCH_OURS),
	ROW("gettimes", "clock", "clock_gettime", BENCH_YARDSTICK),
};

BENCH(bench_trace_latency, "trace", "latency", "Single events, 2 threads", "an event",
      "Each of two threads reads the clock before and after each event with a number of "
      "32 bits, which is part of the times. They are medians and percentiles. ",
      rows,
      BENCH_FIGURES({"p99.9 against LTTng-UST's", "near", "lttng", .measure = BENCH_P999,
		     .goal = 1}),
      .kind = BENCH_WAIT, .latency = true, .against = "lttng", .window_ms = 100, .threads = THREADS,
      .fixed_threads = true);
