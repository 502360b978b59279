/* SPDX-License-Identifier: MIT */
/* near_histogram_snapshot: percentiles, shares, sums, merges, text. */
#include "histograms.h"
#include "no_memory.h"

/* ---- percentiles and merges ---- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Values that have a bucket each: the rank is known. */
static void percentiles_have_the_stated_rank(void **state)
{
	static const struct {
		double percent;
		uint64_t value;
	} cases[] = {{0, 1},        {.1, 1},     {.15, 2},    {50, 500},
		     {50.01, 501},  {90, 900},   {99.9, 999}, {99.91, 1000},
		     {99.99, 1000}, {100, 1000}, {33.3, 333}};
	struct near_histogram h = made((struct near_histogram_options){.precision = 9});
	struct near_histogram_snapshot s;

	for (uint64_t v = 1; v <= 1000; v++)
		near_histogram_record(&h, v);
	s = taken(&h);
	for (unsigned i = 0; i < LENGTH(cases); i++)
		assert_int_equal(near_histogram_snapshot_percentile(&s, cases[i].percent).high,
				 cases[i].value);
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}

/* A double has 53 bits. */
static void an_exact_sum_has_all_its_bits(void **state)
{
	struct near_histogram h = made((struct near_histogram_options){.exact_sum = true});
	struct near_histogram_snapshot s;
	char json[400];

	near_histogram_record(&h, ((uint64_t)1 << 60) + 1);
	near_histogram_record(&h, 2);
	s = taken(&h);
	assert_true(s.has_exact_sum);
	assert_int_equal(s.exact_sum, ((uint64_t)1 << 60) + 3);
	near_histogram_snapshot_json(&s, json, sizeof(json));
	assert_non_null(strstr(json, "\"sum\":1152921504606846979,\"sum_error\":0,"));
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}

/* Above 2^53 counts the rank is rounded, except that of 100 percent. */
static void the_last_of_many_values_is_found(void **state)
{
	struct near_histogram h = made((struct near_histogram_options){0});
	struct near_histogram_snapshot s;

	near_histogram_record_n(&h, 1, ((uint64_t)1 << 60) - 2);
	near_histogram_record(&h, 5);
	s = taken(&h);
	assert_int_equal(near_histogram_snapshot_percentile(&s, 100).high, 5);
	assert_int_equal(near_histogram_snapshot_percentile(&s, 99.99).high, 1);
	near_histogram_snapshot_free(&s);
	near_histogram_record_n(&h, 1, -((uint64_t)1 << 60));
	s = taken(&h);
	assert_true(s.count == UINT64_MAX);
	assert_int_equal(near_histogram_snapshot_percentile(&s, 100).high, 5);
	assert_int_equal(near_histogram_snapshot_percentile(&s, 100. - 1e-13).high, 1);
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}

#define VALUES 20000

/* The true percentile is in the bucket that is returned. */
static void percentiles_are_those_of_the_values(void **state)
{
	static const double percents[] = {-1, 0, 0.001, 1, 10, 50, 90, 99, 99.9, 99.99, 100, 101};
	static uint64_t values[VALUES];
	struct near_histogram h = made((struct near_histogram_options){.exact_sum = true}), d;
	struct near_histogram_snapshot s, derived;
	uint64_t seed = 3, sum = 0;

	d = made((struct near_histogram_options){0});
	for (unsigned i = 0; i < VALUES; i++) {
		values[i] = any_number(&seed) >> (24 + unit_random(&seed) % 40);
		near_histogram_record(&h, values[i]);
		near_histogram_record(&d, values[i]);
		sum += values[i];
	}
	qsort(values, VALUES, sizeof(values[0]), compare);
	s = taken(&h);
	derived = taken(&d);
	assert_int_equal(s.count, VALUES);
	assert_true(s.sum == (double)sum && s.sum_error == 0);
	assert_true(derived.sum - derived.sum_error <= s.sum &&
		    s.sum <= derived.sum + derived.sum_error);
	assert_true(derived.sum_error <= s.sum / 32);
	for (unsigned i = 0; i < LENGTH(percents); i++) {
		struct near_histogram_range r = near_histogram_snapshot_percentile(&s, percents[i]);
		double rank = percents[i] / 100 * VALUES;
		unsigned at = rank <= 1        ? 0
			      : rank >= VALUES ? VALUES - 1
					       : (unsigned)(rank + .999999) - 1;

		assert_in_range(values[at], r.low, r.high);
	}
	assert_in_range(values[0], near_histogram_snapshot_min(&s).low,
			near_histogram_snapshot_min(&s).high);
	assert_in_range(values[VALUES - 1], near_histogram_snapshot_max(&s).low,
			near_histogram_snapshot_max(&s).high);
	near_histogram_snapshot_free(&derived);
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&d);
	near_histogram_destroy(&h);
}

static bool is_same(struct near_histogram_range a, struct near_histogram_range b)
{
	return a.low == b.low && a.high == b.high;
}

/* As that of a snapshot, also after a reset. */
static void percentiles_need_no_snapshot(void **state)
{
	static const struct near_histogram_options options[] = {
		{0}, {.precision = 1}, {.max = 1000}, {.precision = 9, .exact_sum = true}};
	uint64_t seed = 4;

	for (unsigned o = 0; o < LENGTH(options); o++) {
		struct near_histogram h = made(options[o]);
		struct near_histogram_snapshot s;

		assert_int_equal(near_histogram_percentile(&h, 50).high, 0);
		for (unsigned round = 0; round < 2; round++) {
			for (unsigned i = 0; i < VALUES / 10; i++)
				near_histogram_record(&h, any_number(&seed) >> i % 64);
			s = taken(&h);
			for (double percent = 0; percent <= 100; percent += 6.25)
				assert_true(
					is_same(near_histogram_percentile(&h, percent),
						near_histogram_snapshot_percentile(&s, percent)));
			near_histogram_snapshot_free(&s);
			assert_int_equal(near_histogram_reset(&h, &s), 0);
			near_histogram_snapshot_free(&s);
		}
		near_histogram_destroy(&h);
	}
}

static void check_share(const struct near_histogram_snapshot *s, uint64_t value, double least,
			double most)
{
	struct near_histogram_share share = near_histogram_snapshot_share(s, value);

	assert_true(share.least == least && share.most == most);
}

static void shares_are_those_of_buckets(void **state)
{
	struct near_histogram h = made((struct near_histogram_options){.precision = 3, .max = 255});
	struct near_histogram_snapshot s = taken(&h);

	check_share(&s, 0, 1, 1);
	near_histogram_snapshot_free(&s);
	near_histogram_record_n(&h, 0, 2);
	near_histogram_record(&h, 7);
	near_histogram_record(&h, 100); /* 96 to 103 */
	near_histogram_record_n(&h, 1000, 4);
	s = taken(&h);
	check_share(&s, 0, .25, .25);
	check_share(&s, 6, .25, .25);
	check_share(&s, 7, .375, .375);
	check_share(&s, 95, .375, .375);
	check_share(&s, 96, .375, .5);
	check_share(&s, 102, .375, .5);
	check_share(&s, 103, .5, .5);
	check_share(&s, 255, .5, .5);
	check_share(&s, 256, .5, 1);
	check_share(&s, UINT64_MAX, 1, 1);
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}
static void an_empty_histogram_has_no_values(void **state)
{
	struct near_histogram h = made((struct near_histogram_options){0});
	struct near_histogram_snapshot s = taken(&h);
	char text[256];

	assert_int_equal(s.count, 0);
	assert_int_equal(near_histogram_snapshot_percentile(&s, 50).high, 0);
	assert_int_equal(near_histogram_snapshot_min(&s).low, 0);
	assert_int_equal(near_histogram_snapshot_max(&s).high, 0);
	assert_true(near_histogram_snapshot_text(&s, text, sizeof(text)) > 0);
	assert_string_equal(text, "count 0  mean 0.0  min 0  p50 0  p90 0  p99 0  p99.9 0  "
				  "p99.99 0  max 0");
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}

static void a_merge_adds(void **state)
{
	struct near_histogram fine = made((struct near_histogram_options){.precision = 8}),
			      coarse = made((struct near_histogram_options){.precision = 3});
	struct near_histogram_snapshot a, b, both;
	uint64_t seed = 9;

	for (unsigned i = 0; i < 5000; i++) {
		uint64_t v = any_number(&seed) >> i % 64;

		near_histogram_record(i % 2 ? &fine : &coarse, v);
	}
	a = taken(&fine);
	b = taken(&coarse);
	assert_int_equal(near_histogram_snapshot_merge(&a, &b), -EINVAL);
	assert_int_equal(near_histogram_snapshot_merge(&b, &a), 0);
	assert_int_equal(b.count, 5000);
	seed = 9;
	near_histogram_destroy(&coarse);
	coarse = made((struct near_histogram_options){.precision = 3});
	for (unsigned i = 0; i < 5000; i++)
		near_histogram_record(&coarse, any_number(&seed) >> i % 64);
	both = taken(&coarse);
	assert_memory_equal(b.counts, both.counts, b.buckets * sizeof(*b.counts));
	near_histogram_snapshot_free(&a);
	near_histogram_snapshot_free(&b);
	near_histogram_snapshot_free(&both);
	near_histogram_destroy(&fine);
	near_histogram_destroy(&coarse);
}

static void a_merge_keeps_what_is_above_the_maximum(void **state)
{
	struct near_histogram low = made((struct near_histogram_options){.max = 100}),
			      high = made((struct near_histogram_options){.max = 1000});
	struct near_histogram_snapshot a, b;

	near_histogram_record(&low, 50);
	near_histogram_record(&high, 50);
	near_histogram_record(&high, 500);
	near_histogram_record(&high, 5000);
	a = taken(&low);
	b = taken(&high);
	assert_int_equal(near_histogram_snapshot_merge(&b, &a), 0);
	assert_int_equal(near_histogram_snapshot_merge(&a, &b), 0);
	assert_int_equal(a.count, 5);
	assert_int_equal(a.counts[a.buckets - 1], 2);
	assert_int_equal(near_histogram_snapshot_percentile(&a, 60).high, 50);
	assert_int_equal(near_histogram_snapshot_merge(&b, &a), -EINVAL);
	assert_int_equal(b.count, 4);
	near_histogram_snapshot_free(&a);
	near_histogram_snapshot_free(&b);
	near_histogram_destroy(&low);
	near_histogram_destroy(&high);
}

/* ---- text ---- */

static void text_and_json_have_their_form(void **state)
{
	struct near_histogram h = made((struct near_histogram_options){.exact_sum = true});
	struct near_histogram_snapshot s;
	char text[512], cut[8];
	int length;

	near_histogram_record_n(&h, 10, 99);
	near_histogram_record(&h, 1000);
	s = taken(&h);
	length = near_histogram_snapshot_text(&s, text, sizeof(text));
	assert_int_equal(length, strlen(text));
	assert_string_equal(text, "count 100  mean 19.9  min 10  p50 10  p90 10  p99 10  "
				  "p99.9 1007  p99.99 1007  max 1007");
	assert_int_equal(near_histogram_snapshot_text(&s, cut, sizeof(cut)), length);
	assert_string_equal(cut, "count 1");
	length = near_histogram_snapshot_json(&s, text, sizeof(text));
	assert_int_equal(length, strlen(text));
	assert_string_equal(text, "{\"count\":100,\"sum\":1990,\"sum_error\":0,\"precision\":5,"
				  "\"min\":10,\"p50\":10,\"p90\":10,\"p99\":10,\"p99.9\":1007,"
				  "\"p99.99\":1007,\"max\":1007,\"buckets\":[[10,10,99],"
				  "[992,1007,1]]}");
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}

/* Apart: nearcpu check takes errno, beside a sequence, for a field of the kernel's. */
static __attribute__((noinline)) void assert_no_memory(struct near_histogram *h)
{
	struct near_histogram_snapshot s;
	int read, reset;

	no_memory = true;
	KEEPS_ERRNO(read = near_histogram_read(h, &s));
	KEEPS_ERRNO(reset = near_histogram_reset(h, &s));
	no_memory = false;
	assert_int_equal(read, -ENOMEM);
	assert_int_equal(reset, -ENOMEM);
}

static void snapshots_need_memory(void **state)
{
	struct near_histogram h = made((struct near_histogram_options){.precision = 5});
	struct near_histogram_snapshot s;

	near_histogram_record(&h, 7);
	assert_no_memory(&h);
	s = taken(&h);
	assert_int_equal(s.count, 1); /* nothing is lost */
	near_histogram_snapshot_free(&s);
	near_histogram_destroy(&h);
}

UNIT_MAIN(snapshots_need_memory, percentiles_have_the_stated_rank, the_last_of_many_values_is_found,
	  an_exact_sum_has_all_its_bits, percentiles_are_those_of_the_values,
	  percentiles_need_no_snapshot, shares_are_those_of_buckets,
	  an_empty_histogram_has_no_values, a_merge_adds, a_merge_keeps_what_is_above_the_maximum,
	  text_and_json_have_their_form)
