/* SPDX-License-Identifier: MIT */
/* memory: what a thousand queues cost that several threads put into and get from; their handles are
 * not counted. docs/scale.md has the formula. */
#include "bench.h"

#include <nearcpu/fifo.h>
#include <nearcpu/queue.h>
#include <errno.h>
#include <stdlib.h>

#define QUEUES 1000
#define ELEMENTS 64

static struct near_queue *queues;
static struct near_fifo *fifos;
static uint64_t made;

static int init_queues(void)
{
	int err = 0;

	for (uint64_t i = 0; i < made && !err; i++)
		err = near_queue_init(&queues[i], ELEMENTS);
	return err;
}

static int init_fifos(void)
{
	int err = 0;

	for (uint64_t i = 0; i < made && !err; i++)
		err = near_fifo_init(&fifos[i], ELEMENTS);
	return err;
}

/* Puts as many as there is room for, and takes as many: all cells are used. */
static void use_queue(uint64_t i)
{
	void *elements[ELEMENTS] = {NULL};

	near_queue_try_put_many(&queues[i], elements, ELEMENTS);
	near_queue_try_get_many(&queues[i], elements, ELEMENTS);
}

static void use_fifo(uint64_t i)
{
	void *elements[ELEMENTS] = {NULL};

	near_fifo_try_put_many(&fifos[i], elements, ELEMENTS);
	near_fifo_try_get_many(&fifos[i], elements, ELEMENTS);
}

static int run_queues(struct bench_run *run, struct bench_sample *out)
{
	made = run->iterations;
	queues = bench_alloc(made, sizeof(*queues));
	return queues ? bench_grow(run, out, init_queues, use_queue) : -ENOMEM;
}

static int run_fifos(struct bench_run *run, struct bench_sample *out)
{
	made = run->iterations;
	fifos = bench_alloc(made, sizeof(*fifos));
	return fifos ? bench_grow(run, out, init_fifos, use_fifo) : -ENOMEM;
}

static const struct bench_row rows[] = {
	{"near", "near_queue", BENCH_OURS, .missing = bench_needs_live, .run = run_queues},
	{"near-off", "near_queue, rseq off", BENCH_OURS, .conf = "rseq:off", .run = run_queues},
	{"near-fifo", "near_fifo", BENCH_OURS, .run = run_fifos},
};

const struct bench bench_memory_queue = {
	.name = "memory",
	.part = "queues",
	.title = "Memory of a thousand queues",
	.text = "Four threads use each of a thousand queues, of 64 elements each. Counted is the "
		"growth of resident memory, without the handles.",
	.op = "a queue",
	.kind = BENCH_MEMORY,
	.rows = rows,
	.row_count = BENCH_COUNT(rows),
	.iterations = QUEUES,
	.threads = 4,
};
