/* SPDX-License-Identifier: MIT */
/* across: the calls that go to the slots of all CPUs, while all other threads keep changing their
 * own. An add never waits for another CPU; these do, and they cost more the more CPUs take part:
 * a cache line from each, and interrupts to each where membarrier is called.
 *
 * One thread calls and is measured, the others work. Each row is another call: what one row costs
 * with few threads and with many is to be compared, not the rows. */
#include "bench.h"
#include "clock.h"

#include <nearcpu/counter.h>
#include <nearcpu/refcount.h>
#include <nearcpu/rseq.h>
#include <nearcpu/stack.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define LIMIT_NS 20000000 /* then no further batch of calls begins */
#define NODES 4           /* of each thread */
#define CACHE_NS 10000000
#define STACK_BYTES ((size_t)128 * 1024)

struct item {
	_Alignas(BENCH_LINE) struct near_stack_node node;
};

static struct bench_line one;
static struct near_counter counter;
static struct near_refcount ref;
static struct near_stack stack;
static struct item *items;
static unsigned released;

static atomic_bool stop;
static atomic_uint started;

struct helper {
	pthread_t id;
	void (*turn)(void);
	uint64_t turns;
};

static void *help(void *arg)
{
	struct helper *h = arg;

	h->turn();
	h->turns = 1;
	atomic_fetch_add(&started, 1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		h->turn();
		h->turns++;
	}
	return NULL;
}

/* Calls in batches that double, until `calls` are done or time is up. */
static void call(uint64_t calls, void (*batch)(uint64_t n), struct bench_sample *out)
{
	uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	*out = (struct bench_sample){0};
	for (uint64_t n = 1; out->ops < calls && out->wall_ns < LIMIT_NS; n *= 2) {
		if (n > calls - out->ops)
			n = calls - out->ops;
		batch(n);
		out->ops += n;
		out->wall_ns = clock_ns(CLOCK_MONOTONIC) - wall;
	}
	out->user_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
}

/* The other threads do `turn` until the calls are done; *turns is their number. */
static int measure(struct bench_run *run, struct bench_sample *out, void (*turn)(void),
		   void (*batch)(uint64_t n), uint64_t *turns)
{
	unsigned n = run->threads - 1, i;
	struct helper *helpers = calloc(n ? n : 1, sizeof(*helpers));
	int err = helpers ? 0 : ENOMEM;

	for (i = 0; i < n && !err; i += !err) {
		helpers[i].turn = turn;
		err = start_thread(&helpers[i].id, STACK_BYTES, help, &helpers[i]);
	}
	turn();
	*turns = 1;
	while (!err && atomic_load(&started) < n)
		sched_yield();
	if (!err)
		call(run->iterations, batch, out);
	atomic_store(&stop, true);
	while (i--) {
		pthread_join(helpers[i].id, NULL);
		*turns += helpers[i].turns;
	}
	free(helpers);
	run->done = out->ops;
	return -err;
}

#define BATCH(name, ...)                                                                           \
	static void name(uint64_t n)                                                               \
	{                                                                                          \
		while (n--)                                                                        \
			__VA_ARGS__;                                                               \
	}

/* `found`: what the turns have left. */
#define BESIDE(name, init, turn, batch, found)                                                     \
	static int name(struct bench_run *run, struct bench_sample *out)                           \
	{                                                                                          \
		uint64_t turns;                                                                    \
		int err = init;                                                                    \
                                                                                                   \
		if (err)                                                                           \
			return err;                                                                \
		err = measure(run, out, turn, batch, &turns);                                      \
		run->wrong = bench_compare((uint64_t)(found), turns);                              \
		return err;                                                                        \
	}

/* ---- reading what the others add to ---- */

static void add_to_one(void) { atomic_fetch_add_explicit(&one.value, 1, memory_order_relaxed); }

BATCH(read_one, BENCH_USE(atomic_load_explicit(&one.value, memory_order_relaxed)))

BESIDE(run_one, 0, add_to_one, read_one, atomic_load(&one.value))

static void add_to_lines(void)
{
	atomic_fetch_add_explicit(&bench_lines[sched_getcpu()].value, 1, memory_order_relaxed);
}

static uint64_t sum_of_lines(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < near_cpus(); i++)
		sum += atomic_load_explicit(&bench_lines[i].value, memory_order_relaxed);
	return sum;
}

BATCH(read_lines, BENCH_USE(sum_of_lines()))

BESIDE(run_lines, bench_setup_lines(run), add_to_lines, read_lines, sum_of_lines())

static void add_to_counter(void) { near_counter_add(&counter, 1); }

BATCH(read_counter, BENCH_USE(near_counter_read(&counter)))
BATCH(read_cached, BENCH_USE(near_counter_read_cached(&counter, CACHE_NS)))

BESIDE(run_read, near_counter_init(&counter), add_to_counter, read_counter,
       near_counter_read(&counter))
BESIDE(run_cached, near_counter_init(&counter), add_to_counter, read_cached,
       near_counter_read(&counter))

/* What every fence of this library is; the other rows can be read as multiples of it. */
BATCH(fence, syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0))

BESIDE(run_fence, near_counter_init(&counter), add_to_counter, fence, near_counter_read(&counter))

/* ---- taking an object out of service ---- */

static void refcount_released(struct near_refcount *r)
{
	(void)r;
	released++;
}

static void get_and_put(void)
{
	near_refcount_get(&ref);
	near_refcount_put(&ref);
}

static void kill_and_revive(uint64_t n)
{
	while (n--) {
		near_refcount_kill(&ref);
		near_refcount_revive(&ref);
	}
}

static int run_kill(struct bench_run *run, struct bench_sample *out)
{
	uint64_t turns;
	int err = near_refcount_init(&ref, refcount_released);

	if (err)
		return err;
	near_refcount_get(&ref); /* so that no kill is the end */
	err = measure(run, out, get_and_put, kill_and_revive, &turns);
	near_refcount_put(&ref);
	if (released)
		run->wrong = "wrong result: released while in service";
	near_refcount_kill(&ref);
	if (released != 1)
		run->wrong = "wrong result: not released once after the kill";
	return err;
}

/* ---- taking all lists ---- */

static void pop_and_push(void)
{
	struct near_stack_node *node = near_stack_pop(&stack);

	if (node)
		near_stack_push(&stack, node);
}

static unsigned push_all(struct near_stack_node *list)
{
	struct near_stack_node *last = list;
	unsigned count = !!list;

	for (; last && last->next; last = last->next)
		count++;
	if (list)
		near_stack_push_chain(&stack, list, last);
	return count;
}

BATCH(drain, push_all(near_stack_drain(&stack)))

static int run_drain(struct bench_run *run, struct bench_sample *out)
{
	unsigned nodes = run->threads * NODES;
	uint64_t turns;
	int err = near_stack_init(&stack);

	items = err ? NULL : bench_alloc(nodes, sizeof(*items));
	if (!items)
		return err ? err : -ENOMEM;
	for (unsigned i = 0; i < nodes; i++)
		near_stack_push(&stack, &items[i].node);
	err = measure(run, out, pop_and_push, drain, &turns);
	run->wrong = bench_compare(push_all(near_stack_drain(&stack)), nodes);
	return err;
}

static const struct bench_row rows[] = {
	{"atomic", "read one atomic", .run = run_one},
	{"lines", "sum of a line a CPU", .run = run_lines},
	{"read", "near_counter_read", BENCH_OURS, .run = run_read},
	{"cached", "near_counter_read_cached", BENCH_OURS, .run = run_cached},
	{"kill", "near_refcount_kill, revive", BENCH_OURS, .run = run_kill},
	{"drain", "near_stack_drain, push_chain", BENCH_OURS, .run = run_drain},
	{"fence", "membarrier alone", BENCH_YARDSTICK, .missing = bench_needs_live,
	 .run = run_fence},
};

BENCH(bench_across, "across", NULL, "Calls that go to all CPUs", "a call",
      "One thread reads, kills or drains what all other threads keep changing in their own "
      "slots. Each row is another call: compare what one costs with few threads and with many.",
      rows, .iterations = 1000000, .apart = true);
