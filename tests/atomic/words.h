/* SPDX-License-Identifier: MIT */
/* Objects of n words that all hold the same count, and threads on CPUs. A copy whose words differ
 * is torn. */
#ifndef NEARCPU_TESTS_ATOMIC_WORDS_H
#define NEARCPU_TESTS_ATOMIC_WORDS_H

#include "unit.h"

#include "calls.h"

#define SEQ_CST __ATOMIC_SEQ_CST
#define WORDS_MAX 512

static inline void words_set(uint64_t *words, size_t n, uint64_t value)
{
	for (size_t i = 0; i < n; i++)
		words[i] = value;
}

static inline uint64_t words_get(const uint64_t *words, size_t n)
{
	CHECK(memcmp(words, words + 1, (n - 1) * 8) == 0);
	return words[0];
}

static inline uint64_t words_load(const void *object, size_t n)
{
	uint64_t words[WORDS_MAX];

	call_load(n * 8, object, words, SEQ_CST);
	return words_get(words, n);
}

static inline void words_store(void *object, size_t n, uint64_t value)
{
	uint64_t words[WORDS_MAX];

	words_set(words, n, value);
	call_store(n * 8, object, words, SEQ_CST);
}

static inline uint64_t words_exchange(void *object, size_t n, uint64_t value)
{
	uint64_t words[WORDS_MAX], old[WORDS_MAX];

	words_set(words, n, value);
	call_exchange(n * 8, object, words, old, SEQ_CST);
	return words_get(old, n);
}

/* Adds 1 by compare-exchanges. */
static inline void words_add(void *object, size_t n)
{
	uint64_t old[WORDS_MAX], new[WORDS_MAX];

	call_load(n * 8, object, old, SEQ_CST);
	do
		words_set(new, n, words_get(old, n) + 1);
	while (!call_compare_exchange(n * 8, object, old, new, SEQ_CST, SEQ_CST));
}

/* Binds the n-th thread of a test to a CPU. */
static inline void pin(unsigned n)
{
	unit_pin(n % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), NULL);
}

/* unit_pin finds out which CPUs there are at its first call, which must come before all threads. */
__attribute__((constructor)) static void find_cpus(void)
{
	unit_pin(0, NULL);
	unit_unpin();
}

#endif
