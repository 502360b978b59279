/* SPDX-License-Identifier: MIT */
/* rcu: how many callbacks run, and how much memory waits for them. Each thread makes objects and
 * frees them by callbacks; the time until the last callback has run is part of it. */
#include "bench.h"
#include "clock.h"

#include <errno.h>
#include <pthread.h>

#include "rcu.h"

#define SAMPLE_US 1000

struct updater {
	_Alignas(BENCH_LINE) pthread_t thread;
	const uint32_t *stop;
	uint64_t called, *ran;
	pthread_barrier_t *begun;
};

static void *update(void *arg)
{
	struct updater *u = arg;

	rcu_begin_thread();
	pthread_barrier_wait(u->begun);
	while (!__atomic_load_n(u->stop, __ATOMIC_RELAXED)) {
		/* Release: pairs with the load of one who has seen the callback. */
		__atomic_store_n(&u->called, u->called + 1, __ATOMIC_RELEASE);
		rcu_impl->call(u->ran);
	}
	rcu_end_thread();
	return NULL;
}

static uint64_t called(const struct updater *u, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += __atomic_load_n(&u[i].called, __ATOMIC_RELAXED);
	return sum;
}

/* The most calls that were pending. `ran` first: then no call is missing. */
static uint64_t watch(const struct updater *u, unsigned n, const uint64_t *ran, uint64_t end)
{
	uint64_t most = 0, pending;

	while (now_ns() < end) {
		usleep(SAMPLE_US);
		pending = __atomic_load_n(ran, __ATOMIC_ACQUIRE);
		pending = called(u, n) - pending;
		most = pending > most ? pending : most;
	}
	return most;
}

/* run->iterations: the window, in ms. */
static int run_calls(struct bench_run *run, struct bench_sample *out)
{
	static struct {
		_Alignas(BENCH_LINE) uint64_t ran;
		_Alignas(BENCH_LINE) uint32_t stop;
	} shared;
	struct updater *u = bench_alloc(run->threads, sizeof(*u));
	pthread_barrier_t begun;

	if (!u)
		return -ENOMEM;
	pthread_barrier_init(&begun, NULL, run->threads + 1);
	for (unsigned i = 0; i < run->threads; i++) {
		u[i].stop = &shared.stop;
		u[i].ran = &shared.ran;
		u[i].begun = &begun;
		if (pthread_create(&u[i].thread, NULL, update, &u[i]))
			abort();
	}
	memset(out, 0, sizeof(*out));
	pthread_barrier_wait(&begun);
	out->wall_ns -= now_ns();
	out->bytes = RCU_OBJECT *
		     watch(u, run->threads, &shared.ran, now_ns() + run->iterations * 1000000);
	__atomic_store_n(&shared.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < run->threads; i++)
		pthread_join(u[i].thread, NULL);
	rcu_begin_thread();
	rcu_impl->barrier();
	rcu_end_thread();
	out->wall_ns += now_ns();
	add_usage(RUSAGE_SELF, 1, &out->user_ns, &out->system_ns);
	out->ops = __atomic_load_n(&shared.ran, __ATOMIC_RELAXED);
	run->wrong = bench_compare(out->ops, called(u, run->threads));
	return 0;
}

/* The same for a table of memory, whose operation is all of it. */
static int run_memory(struct bench_run *run, struct bench_sample *out)
{
	int err;

	run->iterations = 60;
	err = run_calls(run, out);
	out->ops = 1;
	return err;
}

#define ROWS(name, function)                                                                       \
	static const struct bench_row name[] = {                                                   \
		RCU_ROW("memb", "memb", "call_rcu of liburcu memb", BENCH_PEER, .run = function,   \
			.tunables = RCU_TLS),                                                      \
		RCU_ROW("near", "near", "near_rcu_call", BENCH_OURS, .run = function),             \
		RCU_ROW("near-bounded", "near-bounded", "near_rcu_call_bounded, 1 MiB",            \
			BENCH_OURS, .run = function),                                              \
		RCU_ROW("near", "near-off", "near_rcu_call, rseq off", BENCH_OURS,                 \
			.run = function, .conf = "rseq:off")};

ROWS(call_rows, run_calls)
ROWS(memory_rows, run_memory)

#define WHAT                                                                                       \
	"Each thread makes objects of 64 bytes by malloc, and frees them by callbacks of one "     \
	"thread. "

BENCH(bench_rcu_call, "rcu", "call", "RCU, callbacks", "a callback",
      WHAT "The time ends when the last callback has run. ", call_rows,
      BENCH_FIGURES({"call_bounded against call_rcu", "near-bounded", "memb", .goal = 1, .from = 2,
		     .to = 2},
		    {"call against call_rcu", "near", "memb", .goal = 1}),
      .kind = BENCH_WAIT, .latency = true, .against = "memb", .window_ms = 60);

BENCH(bench_rcu_memory, "rcu", "memory", "RCU, memory that waits for callbacks", "a run",
      WHAT "Counted are the objects that wait, at the most, within 60 ms. ", memory_rows,
      BENCH_FIGURES({"objects that wait, with call_bounded", "near-bounded", .goal = 1100000}),
      .kind = BENCH_MEMORY, .iterations = 1);
