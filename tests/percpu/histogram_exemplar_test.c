/* SPDX-License-Identifier: MIT */
/* near_histogram: doubles, and exemplars: which are kept, for how long, whole while others write;
 * handlers, children. The program is linked with --wrap=clock_gettime: the time is the test's. */
#include <nearcpu/histogram.h>

#include <inttypes.h>
#include <math.h>

#include "clock.h"
#include "team.h"

static int64_t now = 5000000000; /* of exemplars */

static int64_t clock_of_test(clockid_t clock)
{
	return clock == CLOCK_REALTIME_COARSE ? __atomic_load_n(&now, __ATOMIC_RELAXED)
					      : REAL_CLOCK;
}

static struct near_histogram h;

static int make_histogram(void **state)
{
	KEEPS_ERRNO(assert_int_equal(near_histogram_init(&h, NULL), 0));
	return 0;
}

static int destroy_histogram(void **state)
{
	near_histogram_destroy(&h);
	assert_null(h.exemplars);
	return 0;
}

static uint64_t count_of(uint64_t value)
{
	struct near_histogram_snapshot s;
	uint64_t count = 0;

	assert_int_equal(near_histogram_read(&h, &s), 0);
	for (unsigned i = 0; i < s.buckets; i++) {
		struct near_histogram_range r = near_histogram_snapshot_bucket(&s, i);

		if (r.low <= value && value <= r.high)
			count = s.counts[i];
	}
	near_histogram_snapshot_free(&s);
	return count;
}

/* ---- doubles ---- */

static void expect_double(double value, uint64_t counts_as)
{
	uint64_t before = count_of(counts_as);

	KEEPS_ERRNO(assert_true(near_histogram_record_double(&h, value)));
	assert_int_equal(count_of(counts_as), before + 1);
}

static void doubles_are_rounded(void **state)
{
	expect_double(0, 0);
	expect_double(.49, 0);
	expect_double(.5, 1);
	expect_double(1, 1);
	expect_double(41.7, 42);
	expect_double(-0., 0);
	expect_double(-5, 0);
	expect_double((double)-INFINITY, 0);
	expect_double((double)INFINITY, UINT64_MAX);
	expect_double(1e300, UINT64_MAX);
	expect_double(18446744073709551616., UINT64_MAX);
	expect_double(9223372036854775808., (uint64_t)1 << 63);
	assert_false(near_histogram_record_double(&h, (double)NAN));
	assert_int_equal(near_histogram_percentile(&h, 0).low, 0);
}

static void not_a_number_is_not_counted(void **state)
{
	struct near_histogram_snapshot s;

	assert_false(near_histogram_record_double(&h, (double)NAN));
	assert_false(near_histogram_record_double(&h, -(double)NAN));
	assert_int_equal(near_histogram_read(&h, &s), 0);
	assert_int_equal(s.count, 0);
	near_histogram_snapshot_free(&s);
}

static void seconds_are_kept_in_units(void **state)
{
	struct near_histogram_options options = {.units = 1e9, .exact_sum = true};
	struct near_histogram_snapshot s;

	near_histogram_destroy(&h);
	assert_int_equal(near_histogram_init(&h, &options), 0);
	expect_double(.1, 100000000);
	expect_double(2.5e-9, 3);
	expect_double(1e-10, 0);
	expect_double(3600, 3600000000000);
	assert_int_equal(near_histogram_read(&h, &s), 0);
	assert_int_equal(s.exact_sum, 3600100000003);
	near_histogram_snapshot_free(&s);
	for (unsigned i = 0; i < 4; i++) {
		struct near_histogram wrong;

		options.units = (double[]){-1, (double)NAN, (double)INFINITY, 1}[i];
		options.reserved[2] = i == 3;
		assert_int_equal(near_histogram_init(&wrong, &options), -EINVAL);
	}
}

/* ---- exemplars ---- */

static void record(uint64_t value, const char *trace_id)
{
	KEEPS_ERRNO(near_histogram_record_exemplar(&h, value, trace_id));
}

static void expect_exemplar(uint64_t low, uint64_t high, uint64_t value, const char *trace_id)
{
	struct near_histogram_exemplar e;
	bool found = near_histogram_exemplar(&h, low, high, &e);

	assert_int_equal(found, trace_id != NULL);
	if (!found)
		return;
	assert_int_equal(e.value, value);
	assert_string_equal(e.trace_id, trace_id);
	assert_in_range(e.ns, 5000000000, (uint64_t)now);
}

static void none_is_kept_unless_asked_for(void **state)
{
	record(3, "a");
	assert_int_equal(count_of(3), 1);
	expect_exemplar(0, UINT64_MAX, 0, NULL);
	KEEPS_ERRNO(assert_int_equal(near_histogram_keep_exemplars(&h), 0));
	expect_exemplar(0, UINT64_MAX, 0, NULL);
	record(3, "a");
	expect_exemplar(0, UINT64_MAX, 3, "a");
	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	expect_exemplar(0, UINT64_MAX, 3, "a");
	assert_int_equal(count_of(3), 2);
}

static void each_power_of_two_has_its_own(void **state)
{
	char id[20];

	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	for (unsigned k = 1; k < 64; k++) {
		snprintf(id, sizeof(id), "id-%u", k);
		record(((uint64_t)1 << k) + 1, id);
	}
	record(0, "zero");
	record(1, "one"); /* in the same */
	for (unsigned k = 2; k < 64; k++) {
		uint64_t bound = (uint64_t)1 << k;

		snprintf(id, sizeof(id), "id-%u", k);
		expect_exemplar(bound, bound + (bound - 1), bound + 1, id);
		expect_exemplar(bound + 1, bound + 1, bound + 1, id);
		expect_exemplar(0, bound + 1, bound + 1, id);
		expect_exemplar(bound, bound, 0, NULL);
		expect_exemplar(bound + 2, bound + (bound - 1), 0, NULL);
	}
	expect_exemplar(0, 1, 0, "zero");
	expect_exemplar(1, 1, 0, NULL);
	expect_exemplar(0, UINT64_MAX, ((uint64_t)1 << 63) + 1, "id-63");
}

static void one_is_kept_for_a_second(void **state)
{
	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	record(5, "first");
	now += 999999999;
	record(6, "second");
	expect_exemplar(4, 7, 5, "first");
	now += 1;
	record(7, "third");
	expect_exemplar(4, 7, 7, "third");
	record(4, "fourth");
	expect_exemplar(4, 7, 7, "third");
	assert_int_equal(count_of(6), 1);
}

static void bad_trace_ids_are_left_out(void **state)
{
	static const char *const bad[] = {NULL,   "",         "a b",
					  "a\"",  "\\",       "\n",
					  "\x7f", "\xc3\xa9", "123456789012345678901234567890123"};

	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	for (unsigned i = 0; i < LENGTH(bad); i++)
		record(8, bad[i]);
	expect_exemplar(0, UINT64_MAX, 0, NULL);
	assert_int_equal(count_of(8), LENGTH(bad));
	record(8, "12345678901234567890123456789012");
	expect_exemplar(8, 8, 8, "12345678901234567890123456789012");
	now += 1000000000;
	record(8, "x"); /* nothing of the longer one is left */
	expect_exemplar(8, 8, 8, "x");
}

static void a_region_has_them_in_each_process(void **state)
{
	static const struct near_histogram_options exact = {.exact_sum = true, .max = 100};
	struct near_region r;

	near_histogram_destroy(&h);
	assert_int_equal(near_region_open(&r, NULL, NULL), 0);
	assert_int_equal(near_histogram_open(&h, &r, "h", NULL, &exact), 0);
	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	record(50, "a");
	record(5000, "b");
	expect_exemplar(0, 100, 50, "a");
	expect_exemplar(101, UINT64_MAX, 5000, "b");
	assert_int_equal(count_of(5000), 1);
	near_histogram_destroy(&h);
	near_region_close(&r);
}

/* ---- threads, handlers, children ---- */

static uint64_t torn;

static void record_many(unsigned number)
{
	for (unsigned i = unit_scale(100000); i; i--) {
		char id[33];
		uint64_t value = 1024 + i * 4 % 1024 + number;

		/* Its first and last bytes are the value's. */
		snprintf(id, sizeof(id), "%08" PRIx64 "-------.-------%08" PRIx64 ".", value,
			 value);
		near_histogram_record_exemplar(&h, value, id);
		__atomic_fetch_add(&now, 400000000, __ATOMIC_RELAXED);
	}
}

static void read_many(unsigned number)
{
	struct near_histogram_exemplar e;
	uint64_t first, last;

	while (team_continues()) {
		if (!near_histogram_exemplar(&h, 1024, 2047, &e))
			continue;
		first = strtoull(e.trace_id, NULL, 16);
		last = strtoull(e.trace_id + 23, NULL, 16);
		if (first != e.value || last != e.value)
			__atomic_add_fetch(&torn, 1, __ATOMIC_RELAXED);
	}
}

static void readers_see_whole_ones(void **state)
{
	struct near_histogram_exemplar e;
	struct team team;

	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	team_start(&team, 2, read_many);
	team_run(3, record_many);
	team_stop(&team);
	assert_int_equal(torn, 0);
	assert_true(near_histogram_exemplar(&h, 1024, 2047, &e));
	now = 5000000000;
}

static void record_in_handler(int signal)
{
	near_histogram_record_exemplar(&h, 1025, "handler");
	__atomic_fetch_add(&now, 1000000000, __ATOMIC_RELAXED);
}

static void handlers_may_record(void **state)
{
	struct near_histogram_exemplar e;
	unsigned n = unit_scale(300000);

	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	unit_timer(100, record_in_handler);
	for (unsigned i = 0; i < n; i++) {
		near_histogram_record_exemplar(&h, 1026, "thread");
		if (near_histogram_exemplar(&h, 1024, 2047, &e))
			CHECK(strcmp(e.trace_id, e.value == 1025 ? "handler" : "thread") == 0);
	}
	unit_timer(0, NULL);
	record_in_handler(0);
	assert_int_equal(count_of(1026) >= n, 1);
}

/* Its writer is lost in a fork. */
static void a_child_finishes_what_was_begun(void **state)
{
	uint64_t *version;

	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	record(2, "a");
	version = (uint64_t *)h.exemplars + 2 * (1 + 2 + NEAR_HISTOGRAM_TRACE_ID / 8);
	++*version; /* as if another thread were writing */
	now += 1000000000;
	record(2, "b");
	expect_exemplar(2, 2, 0, NULL);
	IN_CHILD() {
		struct near_histogram_exemplar e;

		CHECK(!near_histogram_exemplar(&h, 2, 2, &e));
		near_histogram_record_exemplar(&h, 2, "c");
		CHECK(near_histogram_exemplar(&h, 2, 2, &e) && strcmp(e.trace_id, "c") == 0);
	}
	expect_exemplar(2, 2, 0, NULL);
	++*version;
	expect_exemplar(2, 2, 2, "a");
	now += 1000000000;
	*version = UINT32_MAX - 1; /* wraps */
	record(3, "d");
	expect_exemplar(2, 3, 3, "d");
}

UNIT_MAIN_EACH(make_histogram, destroy_histogram, doubles_are_rounded, not_a_number_is_not_counted,
	       seconds_are_kept_in_units, none_is_kept_unless_asked_for,
	       each_power_of_two_has_its_own, one_is_kept_for_a_second, bad_trace_ids_are_left_out,
	       a_region_has_them_in_each_process, readers_see_whole_ones, handlers_may_record,
	       a_child_finishes_what_was_begun)
