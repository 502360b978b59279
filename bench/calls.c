/* SPDX-License-Identifier: MIT */
/* calls: what each call costs by one thread that has all it needs in its cache: where
 * docs/scale.md starts from. Some rows have a cost of their own in the loop (two calls, or a
 * number that is added up), so each row stands for itself. */
#include "bench.h"

#include <nearcpu/counter.h>
#include <nearcpu/lock.h>
#include <nearcpu/rseq.h>
#include <nearcpu/shared_counters.h>
#include <nearcpu/stack.h>

#define CACHE_NS 100000000

static struct near_counter counter;
static struct near_stack stack;
static struct near_stack_node node;
static struct near_region region;
static struct near_shared_counters shared;
static struct near_lock lock = NEAR_LOCK_INIT;
static uint64_t locked, found;

BENCH_SETUP(setup_counter, near_counter_init(&counter))
BENCH_SETUP(setup_stack, near_stack_init(&stack))
BENCH_SETUP(setup_shared,
	    near_region_open(&region, NULL, NULL)
		    ?: near_shared_counters_open(&shared, &region, "calls", NULL, NULL))

/* So that each read finds a 1. */
BENCH_SETUP(setup_counted, setup_counter(run) ?: (near_counter_add(&counter, 1), 0))
BENCH_SETUP(setup_shared_counted, setup_shared(run) ?: (near_shared_counters_add(&shared, 0, 1), 0))

BENCH_WORK(work_cpu, BENCH_USE(near_cpu()))
BENCH_WORK(work_add, near_counter_add(&counter, 1))

/* libnearcpu-ffi's function of the same name, as other languages call it. */
void called_counter_add(struct near_counter *c, int64_t n) __asm__("near_counter_add");

BENCH_WORK(work_called, called_counter_add(&counter, 1))
BENCH_CHECK(check_add, bench_compare((uint64_t)near_counter_read(&counter), run->done))
BENCH_WORK(work_read, found += (uint64_t)near_counter_read(&counter))
BENCH_WORK(work_cached, found += (uint64_t)near_counter_read_cached(&counter, CACHE_NS))
BENCH_WORK(work_reset, found += (uint64_t)near_counter_reset(&counter))

/* The first one took it, the others found nothing. */
BENCH_CHECK(check_reset, bench_compare(found, 1))

static inline __attribute__((always_inline)) void
push_and(struct bench_thread *t, struct near_stack_node *(*take)(struct near_stack *s))
{
	for (uint64_t i = 0; i < t->iterations; i++) {
		near_stack_push(&stack, &node);
		found += !!take(&stack);
	}
}

static void work_pop(struct bench_thread *t) { push_and(t, near_stack_pop); }
static void work_pop_all(struct bench_thread *t) { push_and(t, near_stack_pop_all); }
static void work_steal(struct bench_thread *t) { push_and(t, near_stack_steal); }

BENCH_CHECK(check_found, bench_compare(found, run->done))
BENCH_WORK(work_shared_add, near_shared_counters_add(&shared, 0, 1))
BENCH_CHECK(check_shared_add,
	    bench_compare((uint64_t)near_shared_counters_read(&shared, 0), run->done))
BENCH_WORK(work_shared_read, found += (uint64_t)near_shared_counters_read(&shared, 0))

static void work_alloc(struct bench_thread *t)
{
	void *p;

	for (uint64_t i = 0; i < t->iterations; i++) {
		if (near_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t), &p))
			continue;
		found++;
		near_percpu_free(p);
	}
}

BENCH_WORK(work_lock, near_lock_lock(&lock); locked++; near_lock_unlock(&lock))
BENCH_CHECK(check_lock, bench_compare(locked, run->done))

#define ROW(kind, set_up, checked) .setup = set_up, .work = work_##kind, .check = check_##checked

static const struct bench_row rows[] = {
	{"cpu", "near_cpu", BENCH_OURS, .work = work_cpu},
	{"add", "near_counter_add", BENCH_OURS, ROW(add, setup_counter, add)},
	{"called", "near_counter_add, called", BENCH_OURS, ROW(called, setup_counter, add)},
	{"read", "near_counter_read", BENCH_OURS, ROW(read, setup_counted, found)},
	{"cached", "near_counter_read_cached", BENCH_OURS, ROW(cached, setup_counted, found)},
	{"reset", "near_counter_reset", BENCH_OURS, ROW(reset, setup_counted, reset)},
	{"pop", "push, near_stack_pop", BENCH_OURS, ROW(pop, setup_stack, found)},
	{"pop_all", "push, near_stack_pop_all", BENCH_OURS, ROW(pop_all, setup_stack, found)},
	{"steal", "push, near_stack_steal", BENCH_OURS, ROW(steal, setup_stack, found)},
	{"shared-add", "near_shared_counters_add", BENCH_OURS,
	 ROW(shared_add, setup_shared, shared_add)},
	{"shared-read", "near_shared_counters_read", BENCH_OURS,
	 ROW(shared_read, setup_shared_counted, found)},
	{"alloc", "near_percpu_alloc, free", BENCH_OURS, .work = work_alloc, .check = check_found},
	{"lock", "near_lock_lock, unlock", BENCH_OURS, .work = work_lock, .check = check_lock},
};

BENCH(bench_calls, "calls", NULL, "Calls, one by one", "a call",
      "One thread makes each call again and again, all that it needs in its cache. Each "
      "row is another call, so they are not compared.",
      rows, .threads = 1, .fixed_threads = true, .apart = true);
