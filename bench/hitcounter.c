/* SPDX-License-Identifier: MIT */
/* hitcounter: every thread adds one to the same counter, ten million times.
 *
 * Source: the hit counter with which the rseq tutorial of cosmopolitan's author compares locks,
 * atomics, per-CPU atomics, sequences and affinity; the same rows, and ours without rseq.
 */
#include "bench.h"

#include <nearcpu/counter.h>
#include <nearcpu/rseq.h>
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

struct atomic_line {
	_Alignas(BENCH_LINE) _Atomic uint64_t value;
};

static struct line locked;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void work_mutex(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++) {
		pthread_mutex_lock(&mutex);
		locked.plain++;
		pthread_mutex_unlock(&mutex);
	}
}

static const char *check_locked(struct bench_run *run)
{
	return bench_compare(locked.plain, run->done);
}

#ifdef HAVE_NSYNC
static nsync_mu nsync_mutex = NSYNC_MU_INIT;

static void work_nsync(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++) {
		nsync.lock(&nsync_mutex);
		locked.plain++;
		nsync.unlock(&nsync_mutex);
	}
}
#define NSYNC_ROW .missing = nsync_load, .work = work_nsync, .check = check_locked
#else
static const char *no_nsync(void)
{
	return "built without nsync (libnsync-dev)";
}
#define NSYNC_ROW .missing = no_nsync
#endif

static struct atomic_line one;

static void work_atomic(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		atomic_fetch_add_explicit(&one.value, 1, memory_order_relaxed);
}

static const char *check_atomic(struct bench_run *run)
{
	return bench_compare(atomic_load(&one.value), run->done);
}

static struct atomic_line *shards;

static int setup_shards(struct bench_run *run)
{
	(void)run;
	shards = bench_alloc(near_cpus(), sizeof(*shards));
	return shards ? 0 : -ENOMEM;
}

static void work_shards(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		atomic_fetch_add_explicit(&shards[sched_getcpu()].value, 1, memory_order_relaxed);
}

static const char *check_shards(struct bench_run *run)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < near_cpus(); i++)
		sum += atomic_load(&shards[i].value);
	return bench_compare(sum, run->done);
}

static struct near_counter counter;

static int setup_near(struct bench_run *run)
{
	(void)run;
	return near_counter_init(&counter);
}

static void work_near(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		near_counter_add(&counter, 1);
}

static const char *check_near(struct bench_run *run)
{
	return bench_compare((uint64_t)near_counter_read(&counter), run->done);
}

static struct line *slots;

static int setup_pinned(struct bench_run *run)
{
	slots = bench_alloc(run->threads, sizeof(*slots));
	return slots ? 0 : -ENOMEM;
}

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
	{"sharded", "atomics by sched_getcpu", .setup = setup_shards, .work = work_shards,
	 .check = check_shards},
	{"near-off", "nearcpu, rseq off", BENCH_OURS, .conf = "rseq:off", NEAR_ROW},
	{"near-cpu", "nearcpu, by cpu", BENCH_OURS, .conf = "slot:cpu", NEAR_ROW,
	 .missing = bench_needs_live},
	{"near-cid", "nearcpu, by cid", BENCH_OURS, .conf = "slot:cid", NEAR_ROW,
	 .missing = bench_needs_cid},
	{"pinned", "own slot, pinned", BENCH_YARDSTICK, .setup = setup_pinned,
	 .prepare = prepare_pinned, .work = work_pinned, .check = check_pinned},
};

static const struct bench_figure figures[] = {
	{"an add by cid against the pinned slot", "near-cid", "pinned", .goal = 1.6},
	{"an add by cpu against the pinned slot", "near-cpu", "pinned", .goal = 1.6},
	{"an add against one atomic", "near-cid", "atomic", .goal = 1.0 / 8, .from = 2},
	{"an add against atomics by sched_getcpu", "near-cid", "sharded", .goal = 1.0 / 3},
	{"an add without rseq against atomics by sched_getcpu", "near-off", "sharded", .goal = 1.3},
};

const struct bench bench_hitcounter = {
	.name = "hitcounter",
	.title = "Hit counter",
	.text = "Every thread adds one to the same counter again and again. The pinned private "
		"slot is a plain increment by a thread that is bound to its CPU: no general "
		"solution, but the cost that the others are measured against. Some CPUs keep such "
		"a word in a register and do one in a cycle.",
	.op = "an add",
	.rows = rows,
	.row_count = BENCH_COUNT(rows),
	.figures = figures,
	.figure_count = BENCH_COUNT(figures),
	.iterations = 10000000,
	.core = true,
};
