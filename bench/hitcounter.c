/* SPDX-License-Identifier: MIT */
/* hitcounter: every thread adds one to the same counter, ten million times.
 *
 * Source: the hit counter with which the rseq tutorial of cosmopolitan's author compares locks,
 * atomics, per-CPU atomics, sequences and affinity; the same rows, and ours without rseq.
 */
#include "bench.h"

#include <nearcpu/counter.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#ifdef HAVE_NSYNC
#include "nsync_functions.h"
#endif

struct line {
	_Alignas(BENCH_LINE) uint64_t plain;
};

static struct line locked;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

BENCH_WORK(work_mutex, pthread_mutex_lock(&mutex); locked.plain++; pthread_mutex_unlock(&mutex))
BENCH_CHECK(check_locked, bench_compare(locked.plain, run->done))

#ifdef HAVE_NSYNC
static nsync_mu nsync_mutex = NSYNC_MU_INIT;

BENCH_WORK(work_nsync, nsync.lock(&nsync_mutex); locked.plain++; nsync.unlock(&nsync_mutex))
#define NSYNC_ROW .missing = nsync_load, .work = work_nsync, .check = check_locked
#else
BENCH_MISSING(no_nsync, "built without nsync (libnsync-dev)")
#define NSYNC_ROW .missing = no_nsync
#endif

static struct bench_line one;

BENCH_WORK(work_atomic, atomic_fetch_add_explicit(&one.value, 1, memory_order_relaxed))
BENCH_CHECK(check_atomic, bench_compare(atomic_load(&one.value), run->done))

BENCH_WORK(work_shards,
	   atomic_fetch_add_explicit(&bench_lines[sched_getcpu()].value, 1, memory_order_relaxed))
BENCH_CHECK(check_shards, bench_compare(bench_sum_lines(), run->done))

static struct near_counter counter;

BENCH_SETUP(setup_near, near_counter_init(&counter))
BENCH_WORK(work_near, near_counter_add(&counter, 1))
BENCH_CHECK(check_near, bench_compare((uint64_t)near_counter_read(&counter), run->done))

static struct line *slots;

BENCH_SETUP(setup_pinned, (slots = bench_alloc(run->threads, sizeof(*slots))) ? 0 : -ENOMEM)

static const char *prepare_pinned(struct bench_thread *t)
{
	return bench_pin(bench_allowed_cpu(t->index)) ? "a thread cannot be bound to a CPU" : NULL;
}

static void work_pinned(struct bench_thread *t)
{
	uint64_t *own = &slots[t->index].plain;

	for (uint64_t i = 0; i < t->iterations; i++) {
		*own += 1;
		BENCH_BARRIER();
	}
}

static const char *check_pinned(struct bench_run *run)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < run->threads; i++)
		sum += slots[i].plain;
	return bench_compare(sum, run->done);
}

#define NEAR_ROW .setup = setup_near, .work = work_near, .check = check_near

static const struct bench_row rows[] = {
	{"mutex", "mutex, glibc", .work = work_mutex, .check = check_locked},
	{"nsync", "mutex, nsync", NSYNC_ROW},
	{"atomic", "one atomic", .work = work_atomic, .check = check_atomic},
	{"sharded", "atomics by sched_getcpu", .setup = bench_setup_lines, .work = work_shards,
	 .check = check_shards},
	{"near-off", "nearcpu, rseq off", BENCH_OFF, NEAR_ROW},
	{"near-cpu", "nearcpu, by cpu", BENCH_OURS, .conf = "slot:cpu", NEAR_ROW,
	 .missing = bench_needs_live},
	{"near-cid", "nearcpu, by cid", BENCH_OURS, .conf = "slot:cid", NEAR_ROW,
	 .missing = bench_needs_cid},
	{"pinned", "own slot, pinned", BENCH_YARDSTICK, .setup = setup_pinned,
	 .prepare = prepare_pinned, .work = work_pinned, .check = check_pinned},
};

BENCH(bench_hitcounter, "hitcounter", NULL, "Hit counter", "an add",
      "Every thread adds one to the same counter again and again. The pinned private "
      "slot is a plain increment by a thread that is bound to its CPU: no general "
      "solution, but the cost that the others are measured against. Some CPUs keep such "
      "a word in a register and do one in a cycle.",
      rows,
      BENCH_FIGURES({"an add by cid against the pinned slot", "near-cid", "pinned", .goal = 1.6},
		    {"an add by cpu against the pinned slot", "near-cpu", "pinned", .goal = 1.6},
		    {"an add against one atomic", "near-cid", "atomic", .goal = 1.0 / 8, .from = 2},
		    {"an add against atomics by sched_getcpu", "near-cid", "sharded",
		     .goal = 1.0 / 3},
		    {"an add without rseq against atomics by sched_getcpu", "near-off", "sharded",
		     .goal = 1.3}),
      .iterations = 10000000, .core = true);
