/* SPDX-License-Identifier: MIT */
/* rcu: how long an updater waits for readers, next to threads that sleep or read. */
#include "bench.h"
#include "clock.h"

#include <nearcpu/histogram.h>
#include <pthread.h>

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
	int err = 0;

	pthread_barrier_init(&o->begun, NULL, o->count + 1);
	pthread_barrier_init(&o->ended, NULL, o->count + 1);
	o->threads = bench_alloc(o->count + 1, sizeof(*o->threads));
	for (unsigned i = 0; i < o->count && !err; i++)
		err = start_thread(&o->threads[i], STACK_BYTES, other, o);
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

/* For a window: of the last call, which may be long, only the time counts. */
static void synchronize(uint64_t window_ns, struct near_histogram *times, struct bench_sample *out)
{
	uint64_t began, begin = now_ns(), end;

	rcu_impl->synchronize();
	add_usage(RUSAGE_THREAD, -1, &out->user_ns, &out->system_ns);
	do {
		began = now_ns();
		rcu_impl->synchronize();
		end = now_ns();
		near_histogram_record(times, end - began);
	} while (end - begin < window_ns);
	add_usage(RUSAGE_THREAD, 1, &out->user_ns, &out->system_ns);
}

/* run->iterations: the window, in ms. The wall time is the median's. */
static int run_next_to(struct bench_run *run, struct bench_sample *out, unsigned count, bool read)
{
	static struct others others;
	struct near_histogram times;
	int err = near_histogram_init(&times, NULL);

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
	err = bench_waits(&times, out);
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

#define ROWS(which)                                                                                \
	static const struct bench_row rows_##which[] = {                                           \
		RCU_ROW("memb", "memb", "liburcu memb", BENCH_PEER, .run = run_##which,            \
			.tunables = RCU_TLS),                                                      \
		RCU_ROW("bp", "bp", "liburcu bp", BENCH_PEER, .run = run_##which,                  \
			.tunables = RCU_TLS),                                                      \
		RCU_ROW("qsbr", "qsbr", "liburcu qsbr", BENCH_PEER, .run = run_##which,            \
			.tunables = RCU_TLS),                                                      \
		RCU_ROW("ck", "ck", "ck_epoch", BENCH_PEER, .run = run_##which,                    \
			.tunables = RCU_TLS),                                                      \
		RCU_ROW("near", "near", "near_rcu", BENCH_OURS, .run = run_##which),               \
		RCU_ROW("near", "near-off", "near_rcu, rseq off", BENCH_OURS, .run = run_##which,  \
			.conf = "rseq:off")};

ROWS(0)
ROWS(busy)
ROWS(100)
ROWS(2000)

#define SYNC(which, what, ...)                                                                     \
	BENCH_TABLE("rcu", "sync-" #which, "RCU, an updater " what, "a wait",                      \
		    "A thread waits for readers, over and over. The times are medians and "        \
		    "percentiles of single waits, and CPU time is that of this thread. In "        \
		    "qsbr a thread that sleeps has reported that it does. ",                       \
		    rows_##which, .kind = BENCH_WAIT, .latency = true, .against = "bp",            \
		    .threads = 1, .fixed_threads = true, __VA_ARGS__)

const struct bench bench_rcu_sync_0 = SYNC(0, "alone", .window_ms = 10);
const struct bench bench_rcu_sync_busy =
	SYNC(busy, "next to 8 threads that read now and then", .window_ms = 60);
const struct bench bench_rcu_sync_100 = SYNC(100, "next to 100 sleeping threads", .window_ms = 10);
const struct bench bench_rcu_sync_2000 =
	SYNC(2000, "next to 2,000 sleeping threads", .window_ms = 30,
	     BENCH_FIGURES({"near_rcu, the median", "near", .goal = 2500},
			   {"against liburcu bp", "near", "bp", .goal = 1 / 4.0}));
