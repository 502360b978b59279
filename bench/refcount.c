/* SPDX-License-Identifier: MIT */
/* refcount: take a reference and put it back, every thread on the same object. */
#include "bench.h"

#include <nearcpu/refcount.h>
#include <nearcpu/rseq.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct atomic_line {
	_Alignas(BENCH_LINE) _Atomic int64_t value;
};

static struct atomic_line one;

static void work_atomic(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++) {
		/* relaxed: a new reference is made from one that is held. */
		atomic_fetch_add_explicit(&one.value, 1, memory_order_relaxed);
		/* acq_rel: as a count must whose last put frees the object. */
		if (atomic_fetch_sub_explicit(&one.value, 1, memory_order_acq_rel) == INT64_MIN)
			abort();
	}
}

static const char *check_atomic(struct bench_run *run)
{
	(void)run;
	return bench_compare((uint64_t)atomic_load(&one.value), 0);
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
	for (uint64_t i = 0; i < t->iterations; i++) {
		atomic_fetch_add_explicit(&shards[sched_getcpu()].value, 1, memory_order_relaxed);
		atomic_fetch_sub_explicit(&shards[sched_getcpu()].value, 1, memory_order_release);
	}
}

static const char *check_shards(struct bench_run *run)
{
	int64_t sum = 0;

	(void)run;
	for (unsigned i = 0; i < near_cpus(); i++)
		sum += atomic_load(&shards[i].value);
	return bench_compare((uint64_t)sum, 0);
}

static struct near_refcount ref;
static unsigned released;

static void release(struct near_refcount *r)
{
	(void)r;
	released++;
}

static int setup_near(struct bench_run *run)
{
	(void)run;
	return near_refcount_init(&ref, release);
}

static void work_near(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++) {
		near_refcount_get(&ref);
		near_refcount_put(&ref);
	}
}

static const char *check_near(struct bench_run *run)
{
	(void)run;
	near_refcount_kill(&ref);
	return released == 1 ? NULL : "wrong result: not released once after the kill";
}

static void work_plain(struct bench_thread *t)
{
	struct {
		_Alignas(BENCH_LINE) int64_t value;
	} own = {0};

	for (uint64_t i = 0; i < t->iterations; i++) {
		__asm__ volatile("" : "+m"(own.value));
		own.value++;
	}
	__asm__ volatile("" : "+m"(own.value));
}

#define NEAR_ROW .setup = setup_near, .work = work_near, .check = check_near

static const struct bench_row rows[] = {
	{"atomic", "one atomic", .work = work_atomic, .check = check_atomic},
	{"sharded", "atomics by sched_getcpu", .setup = setup_shards, .work = work_shards,
	 .check = check_shards},
	{"near-off", "nearcpu, rseq off", BENCH_OURS, .conf = "rseq:off", NEAR_ROW},
	{"near", "nearcpu", BENCH_OURS, .missing = bench_needs_live, NEAR_ROW},
	{"plain", "one plain increment", BENCH_YARDSTICK, .work = work_plain},
};

static const struct bench_figure figures[] = {
	{"get and put against one plain increment", "near", "plain", .goal = 3},
	{"get and put against one atomic", "near", "atomic", .goal = 1.0 / 5, .from = 2},
};

const struct bench bench_refcount = {
	.name = "refcount",
	.title = "Reference count",
	.text = "Every thread takes a reference to the same object and puts it back. The sharded "
		"atomics cannot detect when the object is free. The yardstick is a single "
		"increment of a private variable, where the others do two changes.",
	.op = "a get and put",
	.rows = rows,
	.row_count = BENCH_COUNT(rows),
	.figures = figures,
	.figure_count = BENCH_COUNT(figures),
	.core = true,
};
