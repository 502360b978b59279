/* SPDX-License-Identifier: MIT */
/* memory: what a hundred histograms, a thousand queues and a thousand domains of near_rcu cost that
 * several threads use; their handles are not counted. docs/scale.md has the formulas. */
#include "bench.h"

#include <nearcpu/fifo.h>
#include <nearcpu/histogram.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#define ELEMENTS 64
#define PRECISION NEAR_HISTOGRAM_PRECISION
#define BUCKETS ((65 - PRECISION) << PRECISION)

static uint64_t made;

/* As many objects as the run has iterations: `o` is made, and used by each thread. */
#define OBJECTS(kind, type, make, use)                                                             \
	static type *kind##_objects;                                                               \
	static int kind##_init(void)                                                               \
	{                                                                                          \
		int err = 0;                                                                       \
                                                                                                   \
		for (uint64_t i = 0; i < made && !err; i++) {                                      \
			type *o = &kind##_objects[i];                                              \
                                                                                                   \
			err = make;                                                                \
		}                                                                                  \
		return err;                                                                        \
	}                                                                                          \
	static void kind##_use(uint64_t i)                                                         \
	{                                                                                          \
		type *o = &kind##_objects[i];                                                      \
                                                                                                   \
		use;                                                                               \
	}                                                                                          \
	static int kind##_run(struct bench_run *run, struct bench_sample *out)                     \
	{                                                                                          \
		made = run->iterations;                                                            \
		kind##_objects = bench_alloc(made, sizeof(*kind##_objects));                       \
		return kind##_objects ? bench_grow(run, out, kind##_init, kind##_use) : -ENOMEM;   \
	}

/* Values of all sizes up to 2^30, a few for each power of two: as many pages are touched as with
 * latencies from nanoseconds to a second. */
#define EACH_VALUE(v) for (uint64_t v = 1; v < (uint64_t)1 << 30; v += v / 2 + 1)
/* Puts as many as there is room for, and takes as many: all cells are used. */
#define FILL(put, get)                                                                             \
	void *elements[ELEMENTS] = {NULL};                                                         \
	put(o, elements, ELEMENTS);                                                                \
	get(o, elements, ELEMENTS)

OBJECTS(histogram, struct near_histogram, near_histogram_init(o, NULL),
	EACH_VALUE(v) near_histogram_record(o, v))
OBJECTS(queue, struct near_queue, near_queue_init(o, ELEMENTS),
	FILL(near_queue_try_put_many, near_queue_try_get_many))
OBJECTS(fifo, struct near_fifo, near_fifo_init(o, ELEMENTS),
	FILL(near_fifo_try_put_many, near_fifo_try_get_many))
OBJECTS(rcu, struct near_rcu, near_rcu_init(o, NULL), near_rcu_exit(o, near_rcu_enter(o)))

/* One set of buckets for each histogram, or one for each CPU. */
static _Atomic uint64_t (*buckets)[BUCKETS];
static unsigned sets;

static int init_atomics(void)
{
	buckets = bench_reserve(made * sets * sizeof(*buckets));
	return buckets ? 0 : -ENOMEM;
}

static void record_atomics(uint64_t i)
{
	uint64_t set = i * sets + (sets > 1 ? (unsigned)sched_getcpu() : 0);

	EACH_VALUE(v)
	atomic_fetch_add_explicit(
		&buckets[set][near__histogram_bucket(v, PRECISION, 1 << PRECISION)], 1,
		memory_order_relaxed);
}

static int run_atomics(struct bench_run *run, struct bench_sample *out, unsigned n)
{
	made = run->iterations;
	sets = n;
	return bench_grow(run, out, init_atomics, record_atomics);
}
BENCH_RUN(run_one, run_atomics(run, out, 1))
BENCH_RUN(run_sharded, run_atomics(run, out, near_cpus()))

static const struct bench_row histogram_rows[] = {
	{"atomic", "an atomic per bucket", .run = run_one},
	{"sharded", "the same by sched_getcpu", .run = run_sharded},
	{"near-off", "nearcpu, rseq off", BENCH_OFF, .run = histogram_run},
	{"near", "nearcpu", BENCH_LIVE, .run = histogram_run},
};

BENCH(bench_memory_histogram, "memory", "histograms", "Memory of a hundred histograms",
      "a histogram",
      "Four threads record values up to 2^30 in each of a hundred histograms of 64-bit values, "
      "with 32 buckets for each power of two. Counted is the growth of resident memory, without "
      "the handles; nearcpu's has as many words once more, by which resets lose nothing.",
      histogram_rows, .kind = BENCH_MEMORY, .iterations = 100, .threads = 4);

static const struct bench_row queue_rows[] = {
	{"near", "near_queue", BENCH_LIVE, .run = queue_run},
	{"near-off", "near_queue, rseq off", BENCH_OFF, .run = queue_run},
	{"near-fifo", "near_fifo", BENCH_OURS, .run = fifo_run},
};

BENCH(bench_memory_queue, "memory", "queues", "Memory of a thousand queues", "a queue",
      "Four threads use each of a thousand queues, of 64 elements each. Counted is the growth of "
      "resident memory, without the handles.",
      queue_rows, .kind = BENCH_MEMORY, .iterations = 1000, .threads = 4);

static const struct bench_row rcu_rows[] = {
	{"near", "near_rcu", BENCH_LIVE, .run = rcu_run},
	{"near-off", "near_rcu, rseq off", BENCH_OFF, .run = rcu_run},
};

BENCH(bench_memory_rcu, "memory", "rcu", "Memory of a thousand RCU domains", "a domain",
      "Four threads read in each of a thousand domains. Counted is the growth of resident memory, "
      "without the handles. ",
      rcu_rows, .kind = BENCH_MEMORY, .iterations = 1000, .threads = 4);
