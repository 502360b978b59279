/* SPDX-License-Identifier: MIT */
/* refcount: take a reference and put it back, every thread on the same object. */
#include "bench.h"

#include <nearcpu/refcount.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct {
	_Alignas(BENCH_LINE) _Atomic int64_t value;
} one;

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

BENCH_CHECK(check_atomic, bench_compare((uint64_t)atomic_load(&one.value), 0))

BENCH_WORK(work_shards,
	   atomic_fetch_add_explicit(&bench_lines[sched_getcpu()].value, 1, memory_order_relaxed);
	   atomic_fetch_sub_explicit(&bench_lines[sched_getcpu()].value, 1, memory_order_release))
BENCH_CHECK(check_shards, bench_compare(bench_sum_lines(), 0))

static struct near_refcount ref;
static unsigned released;

static void near_released(struct near_refcount *r)
{
	(void)r;
	released++;
}

BENCH_SETUP(setup_near, near_refcount_init(&ref, near_released))
BENCH_WORK(work_near, near_refcount_get(&ref); near_refcount_put(&ref))

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
	{"sharded", "atomics by sched_getcpu", .setup = bench_setup_lines, .work = work_shards,
	 .check = check_shards},
	{"near-off", "nearcpu, rseq off", BENCH_OFF, NEAR_ROW},
	{"near", "nearcpu", BENCH_LIVE, NEAR_ROW},
	{"plain", "one plain increment", BENCH_YARDSTICK, .work = work_plain},
};

BENCH(bench_refcount, "refcount", NULL, "Reference count", "a get and put",
      "Every thread takes a reference to the same object and puts it back. The sharded "
      "atomics cannot detect when the object is free. The yardstick is a single "
      "increment of a private variable, where the others do two changes.",
      rows,
      BENCH_FIGURES({"get and put against one plain increment", "near", "plain", .goal = 3},
		    {"get and put against one atomic", "near", "atomic", .goal = 1.0 / 5,
		     .from = 2}),
      .core = true);
