/* SPDX-License-Identifier: MIT */
/* histogram: every thread records values into the same histogram; a log-normal distribution, as
 * latencies have. */
#include "bench.h"
#include "clock.h"

#include <nearcpu/histogram.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define VALUES 4096 /* a power of two */
#define PRECISION NEAR_HISTOGRAM_PRECISION
#define BUCKETS ((65 - PRECISION) << PRECISION)

static uint64_t values[VALUES];

/* Half of them below 10,000 ns, one in a thousand above 200,000. */
static int make_values(void)
{
	unsigned short seed[3] = {1, 2, 3};

	for (unsigned i = 0; i < VALUES; i++) {
		double a = erand48(seed), b = erand48(seed);
		double normal = sqrt(-2 * log(1 - a)) * cos(6.283185307179586 * b);

		values[i] = (uint64_t)(10000 * exp(normal));
	}
	return 0;
}

#define EACH_VALUE(t, v)                                                                           \
	for (uint64_t i_ = 0, v; i_ < (t)->iterations && (v = values[i_ % VALUES], true); i_++)

BENCH_SETUP(setup_values, make_values())

/* Of one set of buckets for all threads, or one for each CPU. */
static _Atomic uint64_t (*buckets)[BUCKETS];

BENCH_SETUP(setup_buckets, make_values()
				   ?: (buckets = bench_alloc(near_cpus(), sizeof(*buckets)))
				      ? 0
				      : -ENOMEM)

static void record_atomic(unsigned set, uint64_t v)
{
	atomic_fetch_add_explicit(
		&buckets[set][near__histogram_bucket(v, PRECISION, 1 << PRECISION)], 1,
		memory_order_relaxed);
}

static void work_atomic(struct bench_thread *t)
{
	EACH_VALUE(t, v)
	record_atomic(0, v);
}

static void work_sharded(struct bench_thread *t)
{
	EACH_VALUE(t, v)
	record_atomic((unsigned)sched_getcpu(), v);
}

static const char *check_buckets(struct bench_run *run)
{
	uint64_t sum = 0;

	for (unsigned set = 0; set < near_cpus(); set++)
		for (unsigned i = 0; i < BUCKETS; i++)
			sum += atomic_load(&buckets[set][i]);
	return bench_compare(sum, run->done);
}

/* ---- the crate hdrhistogram, in a module of its own, which is not installed ---- */

static struct {
	void *(*new)(void), *(*recorder)(void *shared);
	void (*record)(void *recorder, const uint64_t *values, uint64_t count, uint64_t n);
	void (*end)(void *recorder);
	uint64_t (*count)(void *shared);
} crate;

static void *crate_shared, *crate_recorders[BENCH_MAX_THREADS];

static const char *missing_crate(void)
{
	static const char file[] = "nearcpu-bench-histogram.so";

	*(void **)&crate.new = symbol_beside(file, "near_bench_hdr_new");
	*(void **)&crate.recorder = symbol_beside(file, "near_bench_hdr_recorder");
	*(void **)&crate.record = symbol_beside(file, "near_bench_hdr_record");
	*(void **)&crate.end = symbol_beside(file, "near_bench_hdr_end");
	*(void **)&crate.count = symbol_beside(file, "near_bench_hdr_count");
	return crate.new ? NULL : "not installed: ./dev bench has it (package cargo)";
}

BENCH_SETUP(setup_crate, make_values() ?: (crate_shared = crate.new()) ? 0 : -ENOMEM)

/* A thread of an earlier run had the same number. */
static const char *prepare_crate(struct bench_thread *t)
{
	void **recorder = &crate_recorders[t->index];

	if (*recorder)
		crate.end(*recorder);
	*recorder = crate.recorder(crate_shared);
	return NULL;
}

static void work_crate(struct bench_thread *t)
{
	crate.record(crate_recorders[t->index], values, VALUES, t->iterations);
}

static const char *check_crate(struct bench_run *run)
{
	for (unsigned i = 0; i < BENCH_MAX_THREADS; i++)
		if (crate_recorders[i])
			crate.end(crate_recorders[i]);
	return bench_compare(crate.count(crate_shared), run->done);
}

/* ---- ours ---- */

static struct near_histogram histogram;
static struct near_region region;

BENCH_SETUP(setup_near, make_values() ?: near_histogram_init(&histogram, NULL))

BENCH_SETUP(setup_sum, make_values()
			       ?: near_histogram_init(&histogram, &(struct near_histogram_options){
									  .exact_sum = true}))

static int setup_region(struct bench_run *run)
{
	int r = make_values() ?: near_region_open(&region, NULL, NULL);

	(void)run;
	return r ? r : near_histogram_open(&histogram, &region, "values", NULL, NULL);
}

static void work_near(struct bench_thread *t)
{
	EACH_VALUE(t, v)
	near_histogram_record(&histogram, v);
}

static const char *check_near(struct bench_run *run)
{
	struct near_histogram_snapshot s;
	uint64_t count;

	if (near_histogram_read(&histogram, &s))
		return "not enough memory";
	count = s.count;
	near_histogram_snapshot_free(&s);
	return bench_compare(count, run->done);
}

static struct near_counter counter;

BENCH_SETUP(setup_counter, make_values() ?: near_counter_init(&counter))

static void work_counter(struct bench_thread *t)
{
	EACH_VALUE(t, v)
	{
		BENCH_USE(v);
		near_counter_add(&counter, 1);
	}
}

BENCH_CHECK(check_counter, bench_compare((uint64_t)near_counter_read(&counter), run->done))

static void work_bucket(struct bench_thread *t)
{
	EACH_VALUE(t, v)
	BENCH_USE(near__histogram_bucket(v, PRECISION, 1 << PRECISION));
}

#define NEAR_ROW .setup = setup_near, .work = work_near, .check = check_near

static const struct bench_row rows[] = {
	{"atomic", "an atomic per bucket", .setup = setup_buckets, .work = work_atomic,
	 .check = check_buckets},
	{"sharded", "the same by sched_getcpu", .setup = setup_buckets, .work = work_sharded,
	 .check = check_buckets},
	{"crate", "the crate hdrhistogram", .missing = missing_crate, .setup = setup_crate,
	 .prepare = prepare_crate, .work = work_crate, .check = check_crate},
	{"near-off", "nearcpu, rseq off", BENCH_OFF, NEAR_ROW},
	{"near", "nearcpu", BENCH_LIVE, NEAR_ROW},
	{"near-sum", "nearcpu, with the exact sum", BENCH_LIVE, .setup = setup_sum,
	 .work = work_near, .check = check_near},
	{"near-region", "nearcpu, in a region", BENCH_LIVE, .setup = setup_region,
	 .work = work_near, .check = check_near},
	{"counter", "a nearcpu counter alone", BENCH_YARDSTICK, .missing = bench_needs_live,
	 .setup = setup_counter, .work = work_counter, .check = check_counter},
	{"bucket", "finding the bucket alone", BENCH_YARDSTICK, .setup = setup_values,
	 .work = work_bucket},
};

BENCH(bench_histogram, "histogram", NULL, "Histogram of log-normal values", "a record",
      "Every thread records values into the same histogram, with 32 buckets for each power of "
      "two; rows with atomics find the bucket by the same code. The values have a log-normal "
      "distribution, as latencies do; they are made beforehand, and loading one is part of each "
      "row. The crate's threads have a recorder each, whose values others see after a refresh.",
      rows,
      BENCH_FIGURES({"a record, less finding the bucket, against an add to a counter", "near",
		     "counter", .less = "bucket", .goal = 2},
		    {"a record against one atomic per bucket", "near", "atomic", .goal = 1.0 / 3,
		     .from = 2}),
      .core = true);
