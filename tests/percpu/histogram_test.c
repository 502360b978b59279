/* SPDX-License-Identifier: MIT */
/* near_histogram: buckets, maxima, corrected records; threads and signal handlers, resets,
 * processes that share a region. */
#include "histograms.h"

#include <fcntl.h>

#include "live.h"
#include "region/regions.h"
#include "team.h"

/* ---- buckets ---- */

static void check_value(const struct near_histogram_snapshot *s, uint64_t v)
{
	uint64_t i = near__histogram_bucket(v, s->precision, (uint64_t)1 << s->precision);
	struct near_histogram_range r;

	assert_true(i < s->buckets);
	r = near_histogram_snapshot_bucket(s, (unsigned)i);
	assert_in_range(v, r.low, r.high);
	assert_true((r.high - r.low) <= r.low >> s->precision);
}

/* They follow each other from 0 to the maximum, and none is wider than promised. */
static void buckets_are_complete(void **state)
{
	for (unsigned precision = 1; precision <= 9; precision++) {
		struct near_histogram h =
			made((struct near_histogram_options){.precision = precision});
		struct near_histogram_snapshot s = taken(&h);
		uint64_t next = 0, seed = precision;

		for (unsigned i = 0; i < s.buckets; i++) {
			struct near_histogram_range r = near_histogram_snapshot_bucket(&s, i);

			assert_int_equal(r.low, next);
			assert_true(r.high >= r.low);
			check_value(&s, r.low);
			check_value(&s, r.high);
			next = r.high + 1;
		}
		assert_int_equal(next, 0); /* after the greatest number */
		for (unsigned i = 0; i < 10000; i++)
			check_value(&s, any_number(&seed) >> i % 64);
		near_histogram_snapshot_free(&s);
		near_histogram_destroy(&h);
	}
}

/* ---- the maximum ---- */

static void greater_values_have_a_bucket(void **state)
{
	static const uint64_t maxima[] = {1, 2, 63, 64, 1000, 1 << 20, UINT64_MAX / 2};

	for (unsigned i = 0; i < LENGTH(maxima); i++) {
		struct near_histogram h = made((struct near_histogram_options){.max = maxima[i]});
		struct near_histogram_snapshot s;

		near_histogram_record(&h, maxima[i]);
		s = taken(&h);
		assert_true(s.max >= maxima[i] && s.max - maxima[i] <= maxima[i] >> s.precision);
		assert_int_equal(near_histogram_snapshot_max(&s).high, s.max);
		near_histogram_record(&h, s.max);
		near_histogram_record(&h, s.max + 1);
		near_histogram_record(&h, (uint64_t)-1); /* a negative number */
		near_histogram_snapshot_free(&s);
		s = taken(&h);
		assert_int_equal(s.count, 4);
		assert_int_equal(s.counts[s.buckets - 1], 2);
		assert_int_equal(near_histogram_snapshot_percentile(&s, 50).high, s.max);
		assert_int_equal(near_histogram_snapshot_max(&s).low, s.max + 1);
		assert_true(near_histogram_snapshot_max(&s).high == UINT64_MAX);
		assert_true(s.sum + s.sum_error >= 0x1p64 && s.sum - s.sum_error <= 4. * s.max);
		near_histogram_snapshot_free(&s);
		near_histogram_destroy(&h);
	}
}

static void zero_and_the_greatest_number_are_values(void **state)
{
	for (unsigned sum = 0; sum < 2; sum++) {
		struct near_histogram h = made((struct near_histogram_options){.exact_sum = sum});
		struct near_histogram_snapshot s;

		near_histogram_record(&h, 0);
		near_histogram_record(&h, UINT64_MAX);
		near_histogram_record(&h, UINT64_MAX - 1);
		s = taken(&h);
		assert_int_equal(s.counts[0], 1);
		assert_int_equal(s.counts[s.buckets - 1], 2);
		assert_int_equal(near_histogram_snapshot_min(&s).high, 0);
		assert_true(near_histogram_snapshot_max(&s).high == UINT64_MAX);
		assert_true(!sum || s.exact_sum == UINT64_MAX - 2); /* modulo 2^64 */
		near_histogram_snapshot_free(&s);
		near_histogram_destroy(&h);
	}
}

static void bad_options_are_refused(void **state)
{
	struct near_histogram h;
	struct near_histogram_options o = {.precision = 11};

	assert_int_equal(near_histogram_init(&h, &o), -EINVAL);
	o.precision = 10;
	assert_int_equal(near_histogram_init(&h, &o), -E2BIG);
	o.max = 1 << 20;
	assert_int_equal(near_histogram_init(&h, &o), 0);
	near_histogram_destroy(&h);
}

/* Term by term it is the same. */
static void check_corrected(struct near_histogram_options options, uint64_t value,
			    uint64_t interval)
{
	struct near_histogram h = made(options), each = made(options);
	struct near_histogram_snapshot a, b;

	near_histogram_record_corrected(&h, value, interval);
	near_histogram_record(&each, value);
	for (uint64_t v = value; interval && v >= interval && v - interval >= interval;)
		near_histogram_record(&each, v -= interval);
	a = taken(&h);
	b = taken(&each);
	assert_int_equal(a.count, b.count);
	assert_memory_equal(a.counts, b.counts, a.buckets * sizeof(*a.counts));
	assert_int_equal(a.exact_sum, b.exact_sum);
	near_histogram_snapshot_free(&a);
	near_histogram_snapshot_free(&b);
	near_histogram_destroy(&h);
	near_histogram_destroy(&each);
}

static void what_was_omitted_is_counted(void **state)
{
	static const uint64_t cases[][2] = {{0, 0},
					    {5, 0},
					    {0, 5},
					    {4, 5},
					    {9, 5},
					    {10, 5},
					    {11, 5},
					    {100000, 7},
					    {100000, 1},
					    {99999, 1000},
					    {1 << 20, 4096},
					    {UINT64_MAX, UINT64_MAX / 5},
					    {UINT64_MAX, UINT64_MAX}};
	struct near_histogram h = made((struct near_histogram_options){.exact_sum = true});
	struct near_histogram_snapshot s;
	uint64_t second = 1000000000;

	for (unsigned i = 0; i < LENGTH(cases); i++)
		for (unsigned o = 0; o < 4; o++)
			check_corrected((struct near_histogram_options){.exact_sum = o & 1,
									.max = o & 2 ? 5000 : 0},
					cases[i][0], cases[i][1]);
	near_histogram_record_corrected(&h, second, 1);
	s = taken(&h);
	assert_int_equal(s.count, second);
	assert_int_equal(s.exact_sum, second / 2 * (second + 1));
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}

/* ---- threads and processes ---- */

#define THREADS 6
#define SECOND_RESET 5 /* two reset, the others record */

static struct near_histogram shared_histogram;
static unsigned records;
static uint64_t reset_count, reset_sum;
static bool stop;

static void record_all(unsigned number)
{
	if (number == 0 || number == SECOND_RESET) {
		while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
			struct near_histogram_snapshot s;

			CHECK(near_histogram_reset(&shared_histogram, &s) == 0);
			__atomic_add_fetch(&reset_count, s.count, __ATOMIC_RELAXED);
			__atomic_add_fetch(&reset_sum, s.exact_sum, __ATOMIC_RELAXED);
			near_histogram_snapshot_free(&s);
			sched_yield();
		}
		return;
	}
	if (number == 1)
		play_dead();
	for (unsigned i = 0; i < records; i++)
		near_histogram_record(&shared_histogram, number * 1000 + i % 1000);
	if (number == 2)
		__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
}

static void resets_lose_nothing(void **state)
{
	struct near_histogram_snapshot s;
	uint64_t sum = 0;

	records = unit_scale(40000) / 1000 * 1000;
	records = records ? records : 1000;
	shared_histogram = made((struct near_histogram_options){.exact_sum = true});
	stop = false;
	reset_count = reset_sum = 0;
	team_run(THREADS, record_all);
	s = taken(&shared_histogram);
	assert_int_equal(reset_count + s.count, (THREADS - 2) * records);
	for (unsigned t = 1; t < SECOND_RESET; t++)
		sum += (uint64_t)t * 1000 * records + (uint64_t)records * 999 / 2;
	assert_int_equal(reset_sum + s.exact_sum, sum);
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&shared_histogram);
}

static void record_in_region(unsigned number)
{
	struct near_region r;
	struct near_histogram h;

	CHECK(near_region_open(&r, path, &(struct near_region_options){.flags = NEAR_CREATE}) == 0);
	CHECK(near_histogram_open(&h, &r, "latency", "op=\"get\"", NULL) == 0);
	for (unsigned i = 0; i < records; i++)
		near_histogram_record(&h, i);
	near_histogram_destroy(&h);
	near_region_close(&r);
}

static void processes_share_one_in_a_region(void **state)
{
	struct near_histogram_options other = {.precision = 4};
	struct near_region r;
	struct near_histogram h;
	struct near_histogram_snapshot s;
	pid_t children[4];

	records = unit_scale(10000);
	for (unsigned i = 0; i < LENGTH(children); i++) {
		children[i] = unit_fork_here();
		if (children[i] == 0) {
			if (i == 0)
				play_dead();
			record_in_region(i);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < LENGTH(children); i++)
		assert_int_equal(unit_wait(children[i], NULL), 0);
	assert_int_equal(near_region_open(&r, path, NULL), 0);
	assert_int_equal(near_histogram_open(&h, &r, "latency", "op=\"get\"", &other), -EEXIST);
	assert_int_equal(near_histogram_open(&h, &r, "latency", "op=\"get\"", NULL), 0);
	assert_int_equal(near_histogram_reset(&h, &s), 0);
	assert_int_equal(s.count, LENGTH(children) * records);
	assert_int_equal(s.counts[7], records > 7 ? LENGTH(children) : 0);
	near_histogram_snapshot_free(&s);
	s = taken(&h);
	assert_int_equal(s.count, 0);
	near_histogram_snapshot_free(&s);
	near_region_close(&r);
}

/* A descriptor for reading alone: what nearcpu stats has. */
static void a_reader_sees_what_a_region_holds(void **state)
{
	struct near_histogram_options options = {.precision = 3, .exact_sum = true, .max = 100};
	struct near_region writers, readers;
	struct near_histogram h, seen;
	struct near_histogram_snapshot s;
	int fd;

	assert_int_equal(near_region_open(&writers, path, &defaults), 0);
	assert_int_equal(near_histogram_open(&h, &writers, "sizes", NULL, &options), 0);
	near_histogram_record_n(&h, 90, 3);
	near_histogram_record(&h, 1000);
	fd = open(path, O_RDONLY);
	assert_int_equal(near_region_open_fd(&readers, fd), 0);
	close(fd);
	near_histogram_record(&h, 1);
	assert_int_equal(near_histogram_open(&seen, &readers, "sizes", NULL, &options), 0);
	s = taken(&seen);
	assert_int_equal(s.count, 4);
	assert_int_equal(s.exact_sum, 1270);
	assert_int_equal(s.counts[s.buckets - 1], 1);
	near_histogram_snapshot_free(&s);
	near_region_close(&readers);
	s = taken(&h);
	assert_int_equal(s.count, 5);
	near_histogram_snapshot_free(&s);
	near_region_close(&writers);
}

static void a_forked_child_has_its_own(void **state)
{
	struct near_histogram h = made((struct near_histogram_options){0});
	struct near_histogram_snapshot s;

	near_histogram_record(&h, 5);
	IN_CHILD() {
		near_histogram_record(&h, 5);
		CHECK(near_histogram_reset(&h, &s) == 0);
		CHECK(s.count == 2 && s.counts[5] == 2);
		near_histogram_snapshot_free(&s);
	}
	s = taken(&h);
	assert_int_equal(s.count, 1);
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}

/* ---- signal handlers ---- */

static struct near_histogram interrupted[2]; /* the second one in a region */
static volatile uint64_t in_handler;

static void record_in_handler(int signal)
{
	near_histogram_record(&interrupted[0], 5000);
	near_histogram_record(&interrupted[1], 5000);
	in_handler++;
}

/* The first records of all are those of a handler. */
static void handlers_may_record(void **state)
{
	struct near_histogram_options options = {.exact_sum = true};
	unsigned n = unit_scale(300000), raised = unit_scale(1000);
	struct near_histogram_snapshot s;
	struct near_region r;

	interrupted[0] = made(options);
	assert_int_equal(near_region_open(&r, NULL, &defaults), 0);
	assert_int_equal(near_histogram_open(&interrupted[1], &r, "h", NULL, &options), 0);
	unit_on_signal(SIGALRM, record_in_handler);
	raise(SIGALRM);
	unit_timer(100, record_in_handler);
	for (unsigned i = 0; i < n + raised; i++) {
		near_histogram_record(&interrupted[i % 2], 3);
		if (i < raised)
			raise(SIGALRM);
	}
	unit_timer(0, NULL);
	assert_true(in_handler > raised);
	for (unsigned i = 0; i < 2; i++) {
		s = taken(&interrupted[i]);
		assert_int_equal(s.count, in_handler + (n + raised + 1 - i) / 2);
		assert_int_equal(s.exact_sum, in_handler * 5000 + (n + raised + 1 - i) / 2 * 3);
		near_histogram_snapshot_free(&s);
		near_histogram_destroy(&interrupted[i]);
	}
	near_region_close(&r);
}

/* A thread with sequences, and one without, of each kind of histogram. */
static void record_slowly(unsigned dead)
{
	struct near_histogram_snapshot s;

	if (dead)
		play_dead();
	for (unsigned sum = 0; sum < 2; sum++) {
		struct near_histogram_options options = {.exact_sum = sum, .max = 1000};
		struct near_histogram h[2] = {made(options)};
		struct near_region r;

		CHECK(near_region_open(&r, NULL, &defaults) == 0);
		CHECK(near_histogram_open(&h[1], &r, "h", NULL, &options) == 0);
		for (unsigned i = 0; i < 2; i++) {
			near_histogram_record_n(&h[i], 10, 2);
			near_histogram_record_n(&h[i], 2000, 3);
			CHECK(near_histogram_reset(&h[i], &s) == 0);
			CHECK(s.count == 5 && s.counts[10] == 2 && s.counts[s.buckets - 1] == 3);
			CHECK(!sum || s.exact_sum == 6020);
			near_histogram_snapshot_free(&s);
			CHECK(near_histogram_read(&h[i], &s) == 0);
			CHECK(s.count == 0 && s.exact_sum == 0);
			near_histogram_snapshot_free(&s);
			near_histogram_destroy(&h[i]);
		}
		near_region_close(&r);
	}
}

static void all_ways_of_recording_count(void **state)
{
	team_run(2, record_slowly);
}

REGION_MAIN(buckets_are_complete, greater_values_have_a_bucket,
	    zero_and_the_greatest_number_are_values, bad_options_are_refused,
	    what_was_omitted_is_counted, resets_lose_nothing, processes_share_one_in_a_region,
	    a_reader_sees_what_a_region_holds, a_forked_child_has_its_own, handlers_may_record,
	    all_ways_of_recording_count)
