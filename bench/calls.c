/* SPDX-License-Identifier: MIT */
/* calls: what each call costs by one thread that has all it needs in its cache: where
 * docs/scale.md starts from. Some rows have a cost of their own in the loop (two calls, or a
 * number that is added up), so each row stands for itself. */
#include "bench.h"

#include <nearcpu/counter.h>
#include <nearcpu/lock.h>
#include <nearcpu/rseq.h>
#include <nearcpu/shared.h>
#include <nearcpu/stack.h>

#define CACHE_NS 100000000

static struct near_counter counter;
static struct near_stack stack;
static struct near_stack_node node;
static struct near_shared shared;
static struct near_lock lock = NEAR_LOCK_INIT;
static uint64_t locked, found;

static int setup_counter(struct bench_run *run)
{
	(void)run;
	return near_counter_init(&counter);
}

static int setup_stack(struct bench_run *run)
{
	(void)run;
	return near_stack_init(&stack);
}

static int setup_shared(struct bench_run *run)
{
	(void)run;
	return near_shared_create(&shared, sizeof(int64_t));
}

/* So that each read finds a 1. */
static int setup_counted(struct bench_run *run)
{
	int err = setup_counter(run);

	if (!err)
		near_counter_add(&counter, 1);
	return err;
}

static int setup_shared_counted(struct bench_run *run)
{
	int err = setup_shared(run);

	if (!err)
		near_shared_add(&shared, 0, 1);
	return err;
}

static void work_cpu(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		BENCH_USE(near_cpu());
}

static void work_add(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		near_counter_add(&counter, 1);
}

/* libnearcpu-ffi's function of the same name, as other languages call it. */
void called_counter_add(struct near_counter *c, int64_t n) __asm__("near_counter_add");

static void work_called(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		called_counter_add(&counter, 1);
}

static const char *check_add(struct bench_run *run)
{
	return bench_compare((uint64_t)near_counter_read(&counter), run->done);
}

static void work_read(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		found += (uint64_t)near_counter_read(&counter);
}

static void work_cached(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		found += (uint64_t)near_counter_read_cached(&counter, CACHE_NS);
}

static void work_reset(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		found += (uint64_t)near_counter_reset(&counter);
}

/* The first one took it, the others found nothing. */
static const char *check_reset(struct bench_run *run)
{
	(void)run;
	return bench_compare(found, 1);
}

static inline __attribute__((always_inline)) void
push_and(struct bench_thread *t, struct near_stack_node *(*take)(struct near_stack *s))
{
	for (uint64_t i = 0; i < t->iterations; i++) {
		near_stack_push(&stack, &node);
		found += !!take(&stack);
	}
}

static void work_pop(struct bench_thread *t)
{
	push_and(t, near_stack_pop);
}

static void work_pop_all(struct bench_thread *t)
{
	push_and(t, near_stack_pop_all);
}

static void work_steal(struct bench_thread *t)
{
	push_and(t, near_stack_steal);
}

static const char *check_found(struct bench_run *run)
{
	return bench_compare(found, run->done);
}

static void work_shared_add(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		near_shared_add(&shared, 0, 1);
}

static const char *check_shared_add(struct bench_run *run)
{
	return bench_compare((uint64_t)near_shared_read(&shared, 0), run->done);
}

static void work_shared_read(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++)
		found += (uint64_t)near_shared_read(&shared, 0);
}

static void work_alloc(struct bench_thread *t)
{
	void *p;

	for (uint64_t i = 0; i < t->iterations; i++) {
		if (near_percpu_alloc(&p, sizeof(uint64_t), sizeof(uint64_t)))
			continue;
		found++;
		near_percpu_free(p);
	}
}

static void work_lock(struct bench_thread *t)
{
	for (uint64_t i = 0; i < t->iterations; i++) {
		near_lock_lock(&lock);
		locked++;
		near_lock_unlock(&lock);
	}
}

static const char *check_lock(struct bench_run *run)
{
	return bench_compare(locked, run->done);
}

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
	{"shared-add", "near_shared_add", BENCH_OURS, ROW(shared_add, setup_shared, shared_add)},
	{"shared-read", "near_shared_read", BENCH_OURS,
	 ROW(shared_read, setup_shared_counted, found)},
	{"alloc", "near_percpu_alloc, free", BENCH_OURS, .work = work_alloc, .check = check_found},
	{"lock", "near_lock_lock, unlock", BENCH_OURS, .work = work_lock, .check = check_lock},
};

const struct bench bench_calls = {
	.name = "calls",
	.title = "Calls, one by one",
	.text = "One thread makes each call again and again, all that it needs in its cache. Each "
		"row is another call, so they are not compared.",
	.op = "a call",
	.rows = rows,
	.row_count = BENCH_COUNT(rows),
	.threads = 1,
	.fixed_threads = true,
	.apart = true,
};
