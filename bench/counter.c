/* SPDX-License-Identifier: MIT */
/* counter: one thread adds to a per-CPU counter.
 *
 * Source: the table with which rseq was merged into Linux in 2018 (kernel commit d7822b1e24f2):
 * getcpu and an atomic, 15.3 ns on x86-64, against a sequence, 2.0 ns. Since 2.35 glibc's
 * sched_getcpu itself reads the CPU from rseq; the rows "vDSO" switch that off and so are the ones
 * of 2018.
 */
#include "bench.h"

#include <nearcpu/counter.h>
#include <sched.h>
#include <stdatomic.h>

BENCH_WORK(work_atomic,
	   atomic_fetch_add_explicit(&bench_lines[sched_getcpu()].value, 1, memory_order_relaxed))

/* A load and a store of their own: an add of another thread in between is lost. */
static inline void add_racy(void)
{
	_Atomic uint64_t *p = &bench_lines[sched_getcpu()].value;

	atomic_store_explicit(p, atomic_load_explicit(p, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

BENCH_WORK(work_racy, add_racy())
/* With one thread the racy row loses nothing either. */
BENCH_CHECK(check_lines, bench_compare(bench_sum_lines(), run->done))

static struct near_counter counter;

BENCH_SETUP(setup_near, near_counter_init(&counter))
BENCH_WORK(work_near, near_counter_add(&counter, 1))
BENCH_CHECK(check_near, bench_compare((uint64_t)near_counter_read(&counter), run->done))

/* Several counters in turn: no add waits for what the one before it stored. The row shows what an
 * add costs, not how long it takes. */
#define COUNTERS 8
static struct near_counter counters[COUNTERS];

static int setup_eight(struct bench_run *run)
{
	int r = 0;

	(void)run;
	for (unsigned i = 0; i < COUNTERS && !r; i++)
		r = near_counter_init(&counters[i]);
	return r;
}

BENCH_WORK(work_eight, near_counter_add(&counters[i % COUNTERS], 1))

static const char *check_eight(struct bench_run *run)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < COUNTERS; i++)
		sum += near_counter_read(&counters[i]);
	return bench_compare((uint64_t)sum, run->done);
}

static uint64_t own;

/* The amount is in a register: to add a constant, some CPUs keep the word in a register and take a
 * cycle. */
static void work_own(struct bench_thread *t)
{
	uint64_t amount = 1;

	__asm__("" : "+r"(amount));
	for (uint64_t i = 0; i < t->iterations; i++) {
		own += amount;
		BENCH_BARRIER();
	}
}

BENCH_CHECK(check_own, bench_compare(own, run->done))

/* Twelve multiplications, each of the result of the one before: 36 cycles on today's CPUs. */
static inline uint64_t other_work(uint64_t x)
{
	for (unsigned i = 0; i < 12; i++) {
		x *= 0x9e3779b97f4a7c15;
		__asm__("" : "+r"(x));
	}
	return x;
}

#define BETWEEN(name, add)                                                                         \
	static void name(struct bench_thread *t)                                                   \
	{                                                                                          \
		uint64_t x = 1;                                                                    \
                                                                                                   \
		for (uint64_t i = 0; i < t->iterations; i++) {                                     \
			x = other_work(x);                                                         \
			add;                                                                       \
		}                                                                                  \
		BENCH_USE(x);                                                                      \
	}
BETWEEN(between_nothing, (void)0)
BETWEEN(between_racy, add_racy())
BETWEEN(between_near, near_counter_add(&counter, 1))

#define NO_RSEQ "glibc.pthread.rseq=0"
#define LINES_ROW(how) .setup = bench_setup_lines, .work = how, .check = check_lines
#define NEAR_ROW .setup = setup_near, .work = work_near, .check = check_near

static const struct bench_row rows[] = {
	{"getcpu-atomic", "getcpu (vDSO) + atomic add", .tunables = NO_RSEQ,
	 LINES_ROW(work_atomic)},
	{"sched-atomic", "sched_getcpu + atomic add", LINES_ROW(work_atomic)},
	{"near-off", "nearcpu, rseq off", BENCH_OFF, NEAR_ROW},
	{"near", "nearcpu", BENCH_LIVE, NEAR_ROW},
	{"getcpu-racy", "getcpu (vDSO) + racy add", BENCH_YARDSTICK, .tunables = NO_RSEQ,
	 LINES_ROW(work_racy)},
	{"sched-racy", "sched_getcpu + racy add", BENCH_YARDSTICK, LINES_ROW(work_racy)},
};

BENCH(bench_counter, "counter", NULL, "Per-CPU counter, one thread", "an add",
      "One thread adds to a counter that is kept per CPU: the comparison with which "
      "rseq came into Linux in 2018. The racy rows use no atomic instruction and would "
      "lose adds with more threads.",
      rows,
      BENCH_FIGURES({"an add against the racy add by sched_getcpu", "near", "sched-racy",
		     .goal = .75}),
      .threads = 1, .fixed_threads = true, .core = true);

static const struct bench_row turn_rows[] = {
	{"own-word", "private word, any amount", BENCH_YARDSTICK, .work = work_own,
	 .check = check_own},
	{"one", "the same counter", BENCH_LIVE, NEAR_ROW},
	{"eight", "eight counters in turn", BENCH_LIVE, .setup = setup_eight, .work = work_eight,
	 .check = check_eight},
	{"work", "other work alone", BENCH_YARDSTICK, .work = between_nothing},
	{"work-near", "a counter, and other work", BENCH_LIVE, .setup = setup_near,
	 .work = between_near, .check = check_near},
	{"work-racy", "a racy add, and other work", BENCH_YARDSTICK, LINES_ROW(between_racy)},
};

BENCH(bench_counter_turn, "counter", "in turn", "Per-CPU counter, latency and throughput", "an add",
      "One thread adds to the same counter again and again, so that each add waits for "
      "the sum of the one before; to eight counters in turn; or once for each ten "
      "nanoseconds or so of other work: twelve multiplications, each of the last result.",
      turn_rows, .apart = true, .threads = 1, .fixed_threads = true, .core = true);
