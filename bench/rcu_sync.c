/* SPDX-License-Identifier: MIT */
/* rcu: how long an updater waits for readers, next to threads that sleep or read. */
#include "bench.h"

#include <nearcpu/histogram.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "rcu.h"

#define STACK_BYTES ((size_t)64 * 1024)
#define PAUSE 100 /* steps between two sections */

struct others {
	pthread_t *threads;
	unsigned count;
	bool read; /* else they sleep */
	uint32_t stop;
	pthread_barrier_t begun, ended;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A thread that is preempted is seldom in a section, whatever the library. */
static void pause_between(void)
{
	for (unsigned i = 0; i < PAUSE; i++)
		BENCH_BARRIER();
}

static void *other(void *arg)
{
	struct others *o = arg;

	rcu_begin_thread();
	rcu_impl->read(1);
	if (rcu_impl->sleep)
		rcu_impl->sleep();
	pthread_barrier_wait(&o->begun);
	if (o->read) {
		if (rcu_impl->wake)
			rcu_impl->wake();
		while (!__atomic_load_n(&o->stop, __ATOMIC_RELAXED)) {
			rcu_impl->read(1);
			pause_between();
		}
		if (rcu_impl->sleep)
			rcu_impl->sleep();
	}
	pthread_barrier_wait(&o->ended);
	if (rcu_impl->wake)
		rcu_impl->wake();
	rcu_end_thread();
	return NULL;
}

static int start_others(struct others *o)
{
	pthread_attr_t attr;
	int err = 0;

	pthread_barrier_init(&o->begun, NULL, o->count + 1);
	pthread_barrier_init(&o->ended, NULL, o->count + 1);
	o->threads = bench_alloc(o->count + 1, sizeof(*o->threads));
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (unsigned i = 0; i < o->count && !err; i++)
		err = pthread_create(&o->threads[i], &attr, other, o);
	pthread_attr_destroy(&attr);
	if (!err)
		pthread_barrier_wait(&o->begun);
	return -err;
}

static void end_others(struct others *o)
{
	__atomic_store_n(&o->stop, 1, __ATOMIC_RELAXED);
	pthread_barrier_wait(&o->ended);
	for (unsigned i = 0; i < o->count; i++)
		pthread_join(o->threads[i], NULL);
}

static void add_times(struct bench_sample *out, uint64_t sign)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	out->user_ns += sign * ((uint64_t)u.ru_utime.tv_sec * 1000000000u +
				(uint64_t)u.ru_utime.tv_usec * 1000u);
	out->system_ns += sign * ((uint64_t)u.ru_stime.tv_sec * 1000000000u +
				  (uint64_t)u.ru_stime.tv_usec * 1000u);
}

/* For a window: of the last call, which may be long, only the time counts. */
static void synchronize(uint64_t window_ns, struct near_histogram *times, struct bench_sample *out)
{
	uint64_t began, begin = now_ns(), end;

	rcu_impl->synchronize();
	add_times(out, (uint64_t)-1);
	do {
		began = now_ns();
		rcu_impl->synchronize();
		end = now_ns();
		near_histogram_record(times, end - began);
	} while (end - begin < window_ns);
	add_times(out, 1);
}

static int sum_up(struct near_histogram *times, struct bench_sample *out)
{
	struct near_snapshot s;
	int err = near_histogram_read(times, &s);

	if (err)
		return err;
	out->ops = s.count;
	out->wall_ns = near_snapshot_percentile(&s, 50).high * s.count;
	out->p99_ns = near_snapshot_percentile(&s, 99).high;
	out->p999_ns = near_snapshot_percentile(&s, 99.9).high;
	out->longest_ns = near_snapshot_max(&s).high;
	near_snapshot_free(&s);
	return 0;
}

/* run->iterations: the window, in ms. The wall time is the median's. */
static int run_next_to(struct bench_run *run, struct bench_sample *out, unsigned count, bool read)
{
	static struct others others;
	struct near_histogram times;
	int err = near_histogram_init(&times, NULL);

	if (!err && rcu_impl->init)
		err = rcu_impl->init();
	others = (struct others){.count = count, .read = read};
	if (!err)
		err = start_others(&others);
	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	rcu_begin_thread();
	synchronize(run->iterations * 1000000, &times, out);
	rcu_end_thread();
	end_others(&others);
	err = sum_up(&times, out);
	near_histogram_destroy(&times);
	return err;
}

#define RUN(name, count, read)                                                                     \
	static int run_##name(struct bench_run *run, struct bench_sample *out)                     \
	{                                                                                          \
		return run_next_to(run, out, count, read);                                         \
	}

RUN(0, 0, false)
RUN(busy, 8, true)
RUN(100, 100, false)
RUN(2000, 2000, false)

RCU_CHOOSE(near, "near")
RCU_CHOOSE(memb, "memb")
RCU_CHOOSE(bp, "bp")
RCU_CHOOSE(qsbr, "qsbr")
RCU_CHOOSE(ck, "ck")

#define ROW(id, name, label, whose, which, ...)                                                    \
	{                                                                                          \
		name, label, whose, .missing = choose_##id, .run = run_##which, __VA_ARGS__        \
	}
#define ROWS(which)                                                                                \
	static const struct bench_row rows_##which[] = {                                           \
		ROW(memb, "memb", "liburcu memb", BENCH_PEER, which, .tunables = RCU_TLS),         \
		ROW(bp, "bp", "liburcu bp", BENCH_PEER, which, .tunables = RCU_TLS),               \
		ROW(qsbr, "qsbr", "liburcu qsbr", BENCH_PEER, which, .tunables = RCU_TLS),         \
		ROW(ck, "ck", "ck_epoch", BENCH_PEER, which, .tunables = RCU_TLS),                 \
		ROW(near, "near", "near_rcu", BENCH_OURS, which),                                  \
		ROW(near, "near-off", "near_rcu, rseq off", BENCH_OURS, which,                     \
		    .conf = "rseq:off")};

ROWS(0)
ROWS(busy)
ROWS(100)
ROWS(2000)

static const struct bench_figure figures_2000[] = {
	{"near_rcu, the median", "near", .goal = 2500},
	{"against liburcu bp", "near", "bp", .goal = 1 / 4.0},
};

#define SYNC(which, what, ...)                                                                     \
	{                                                                                          \
		.name = "rcu", .part = "sync-" #which, .title = "RCU, an updater " what,           \
		.text = "A thread waits for readers, over and over. The times are medians and "    \
			"percentiles of single waits, and CPU time is that of this thread. In "    \
			"qsbr a thread that sleeps has reported that it does. ",                   \
		.op = "a wait", .kind = BENCH_WAIT, .latency = true, .rows = rows_##which,         \
		.row_count = BENCH_COUNT(rows_##which), .against = "bp", .threads = 1,             \
		.fixed_threads = true, __VA_ARGS__                                                 \
	}

const struct bench bench_rcu_sync_0 = SYNC(0, "alone", .window_ms = 10);
const struct bench bench_rcu_sync_busy =
	SYNC(busy, "next to 8 threads that read now and then", .window_ms = 60);
const struct bench bench_rcu_sync_100 = SYNC(100, "next to 100 sleeping threads", .window_ms = 10);
const struct bench bench_rcu_sync_2000 = SYNC(2000, "next to 2,000 sleeping threads",
					      .window_ms = 30, .figures = figures_2000,
					      .figure_count = BENCH_COUNT(figures_2000));
