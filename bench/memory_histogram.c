/* SPDX-License-Identifier: MIT */
/* memory: what a hundred histograms cost that several threads record log-normal values in; their
 * handles are not counted. docs/scale.md has the formula. */
#include "bench.h"

#include <nearcpu/histogram.h>
#include <nearcpu/rseq.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HISTOGRAMS 100
#define PRECISION NEAR_HISTOGRAM_PRECISION
#define BUCKETS ((65 - PRECISION) << PRECISION)

static uint64_t made;

/* Values of all sizes up to 2^30, a few for each power of two: as many pages are touched as with
 * latencies from nanoseconds to a second. */
#define EACH_VALUE(v) for (uint64_t v = 1; v < (uint64_t)1 << 30; v += v / 2 + 1)

static struct near_histogram *histograms;

static int init_near(void)
{
	int err = 0;

	for (uint64_t i = 0; i < made && !err; i++)
		err = near_histogram_init(&histograms[i], NULL);
	return err;
}

static void record_near(uint64_t i)
{
	EACH_VALUE(v)
	near_histogram_record(&histograms[i], v);
}

static int run_near(struct bench_run *run, struct bench_sample *out)
{
	made = run->iterations;
	histograms = bench_alloc(made, sizeof(*histograms));
	return histograms ? bench_grow(run, out, init_near, record_near) : -ENOMEM;
}

/* One set of buckets for each histogram, or one for each CPU. */
static _Atomic uint64_t (*buckets)[BUCKETS];
static unsigned sets;

static int init_atomics(void)
{
	size_t size = made * sets * sizeof(*buckets);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	madvise(p, size, MADV_NOHUGEPAGE);
	buckets = p;
	return 0;
}

static void record_atomics(uint64_t i)
{
	uint64_t set = i * sets + (sets > 1 ? (unsigned)sched_getcpu() : 0);

	EACH_VALUE(v)
	atomic_fetch_add_explicit(
		&buckets[set][near__histogram_bucket(v, PRECISION, 1 << PRECISION)], 1,
		memory_order_relaxed);
}

static int run_one(struct bench_run *run, struct bench_sample *out)
{
	made = run->iterations;
	sets = 1;
	return bench_grow(run, out, init_atomics, record_atomics);
}

static int run_sharded(struct bench_run *run, struct bench_sample *out)
{
	made = run->iterations;
	sets = near_cpus();
	return bench_grow(run, out, init_atomics, record_atomics);
}

static const struct bench_row rows[] = {
	{"atomic", "an atomic per bucket", .run = run_one},
	{"sharded", "the same by sched_getcpu", .run = run_sharded},
	{"near-off", "nearcpu, rseq off", BENCH_OURS, .conf = "rseq:off", .run = run_near},
	{"near", "nearcpu", BENCH_OURS, .missing = bench_needs_live, .run = run_near},
};

const struct bench bench_memory_histogram = {
	.name = "memory",
	.part = "histograms",
	.title = "Memory of a hundred histograms",
	.text = "Four threads record values up to 2^30 in each of a hundred histograms of 64-bit "
		"values, with 32 buckets for each power of two. Counted is the growth of resident "
		"memory, without the handles; nearcpu's has as many words once more, by which "
		"resets lose nothing.",
	.op = "a histogram",
	.kind = BENCH_MEMORY,
	.rows = rows,
	.row_count = BENCH_COUNT(rows),
	.iterations = HISTOGRAMS,
	.threads = 4,
};
