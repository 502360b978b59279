/* SPDX-License-Identifier: MIT */
/* The distances between samples. */
#include "malloc/diagnostics/sampler.h"

#include "malloc/base/os.h"

#define LARGEST_RATE ((uint64_t)1 << 40) /* the product below has 64 bits */

/* splitmix64, by Steele, Lea and Flood: any seed serves, also a small one. */
static uint64_t next_random(struct near__sampler *s)
{
	uint64_t z = s->seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* -log2(u), u in (0, 1] in units of 2^-64, times 2^16. Fraction bits by repeated squaring. */
static uint64_t minus_log2(uint64_t u)
{
	unsigned zeros;
	uint64_t log = 0;

	u += u == 0;
	zeros = (unsigned)__builtin_clzll(u);
	u = u << zeros >> 32; /* 1 to 2, with 31 fraction bits */
	for (int i = 0; i < 16; i++) {
		u = u * u >> 31;
		log = log * 2 + (u >> 32);
		u >>= u >> 32;
	}
	return ((uint64_t)zeros + 1) * 65536 - log;
}

/* The distance to the next selected byte: exponential, rounded up, which is the geometric
 * distribution. Rounded down, an allocation of n bytes would have the probability of n + 1. At a
 * rate of 1 tools expect all allocations. */
static int64_t next_distance(struct near__sampler *s, uint64_t rate)
{
	uint64_t ln;

	if (rate <= 1)
		return 1;
	rate = rate < LARGEST_RATE ? rate : LARGEST_RATE;
	ln = minus_log2(next_random(s)) * 45426 >> 16; /* ln 2 * 65536 */
	return (int64_t)(rate * ln >> 16) + 1;
}

void near__sampler_seed(struct near__sampler *s, uint64_t rate, uint64_t seed)
{
	s->seed = seed;
	s->left = next_distance(s, rate);
}

/* The distribution has no memory: the next distance counts from the end of the sampled allocation,
 * and the rest of a distance may be dropped when a thread ends or forks. */
bool near__sampler_reached(struct near__sampler *s, uint64_t rate, size_t n)
{
	if (!s->left) {
		near__sampler_seed(s, rate, near__os_random());
		return near__sampler_take(s, rate, n);
	}
	s->left = next_distance(s, rate);
	return true;
}
