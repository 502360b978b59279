/* SPDX-License-Identifier: MIT */
/* The estimates of heap profiles, over many seeds that are always the same. Seven times the
 * standard deviation of their mean is allowed. */
#include <math.h>
#include <nearcpu/malloc.h>

#include "unit.h"

#include "malloc/diagnostics/sampler.h"

#define SEEDS 2000

/* What each seed decides about. */
struct run {
	uint64_t rate;
	size_t n;
	unsigned blocks;
};

/* As pprof scales the samples. */
static double mean_estimate(const struct run *r, double chance)
{
	double sum = 0;

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct near__sampler s;
		unsigned taken = 0;

		near__sampler_seed(&s, r->rate, seed);
		for (unsigned i = 0; i < r->blocks; i++)
			taken += near__sampler_take(&s, r->rate, r->n);
		sum += taken / chance;
	}
	return sum / SEEDS;
}

static void estimates_are_right_in_the_mean(void **state)
{
	static const struct run runs[] = {
		{524288, 10000, 1000}, {524288, 10000, 100}, {524288, 100, 10000},
		{524288, 1 << 20, 20}, {4096, 16, 5000},     {64, 8, 1000},
		{16, 1, 1000},         {2, 1, 1000},         {4096, 100, 3},
	};

	for (size_t i = 0; i < LENGTH(runs); i++) {
		const struct run *r = &runs[i];
		double chance = -expm1(-(double)r->n / (double)r->rate);
		double mean = mean_estimate(r, chance), count = r->blocks;
		double deviation = sqrt(count * (1 - chance) / chance / SEEDS);

		if (fabs(mean - count) > 7 * deviation)
			fail_msg("%zu bytes at %llu: %.3f of %.0f blocks, deviation %.3f", r->n,
				 (unsigned long long)r->rate, mean, count, deviation);
	}
}

/* Where all are sampled nothing is scaled. */
static void at_a_rate_of_one_all_are_taken(void **state)
{
	for (uint64_t rate = 0; rate < 2; rate++) {
		struct near__sampler s;

		near__sampler_seed(&s, rate, 1);
		for (unsigned i = 1; i < 1000; i++)
			assert_true(near__sampler_take(&s, rate, i));
	}
}

/* A block without a byte contains none that is chosen. */
static void nothing_is_never_taken(void **state)
{
	struct near__sampler s;

	near__sampler_seed(&s, 1, 1);
	for (unsigned i = 0; i < 1000; i++) {
		assert_false(near__sampler_take(&s, 2, 0));
		near__sampler_take(&s, 2, 1);
	}
}

/* Five numbers of 64 bits are the same once in 2^320 runs. */
static void each_sampler_takes_its_own_seed(void **state)
{
	uint64_t seeds[6];
	bool differ = false;

	for (unsigned i = 0; i < LENGTH(seeds); i++) {
		struct near__sampler s = {0};

		near__sampler_take(&s, 524288, 0);
		seeds[i] = s.seed;
		assert_true(s.left > 0);
		differ = differ || seeds[i] != seeds[0];
	}
	assert_true(differ);
}

static void largest_rates(void **state)
{
	for (uint64_t seed = 0; seed < 1000; seed++) {
		struct near__sampler s;

		near__sampler_seed(&s, UINT64_MAX, seed);
		assert_true(s.left > 0);
		near__sampler_take(&s, UINT64_MAX, PTRDIFF_MAX);
		assert_true(s.left > 0);
	}
}

UNIT_MAIN(estimates_are_right_in_the_mean, at_a_rate_of_one_all_are_taken, nothing_is_never_taken,
	  each_sampler_takes_its_own_seed, largest_rates)
