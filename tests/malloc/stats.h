/* SPDX-License-Identifier: MIT */
/* The statistics as values, for tests that compare them. */
#ifndef NEARCPU_TESTS_MALLOC_STATS_H
#define NEARCPU_TESTS_MALLOC_STATS_H

#include <nearcpu/malloc.h>

#include "use.h"

static inline struct near_malloc_stats stats(void)
{
	struct near_malloc_stats s;

	assert_int_equal(near_malloc_stats(&s, sizeof(s)), 0);
	return s;
}

static inline struct near_malloc_class_stats stats_of(size_t size)
{
	struct near_malloc_class_stats c;

	for (unsigned n = 0; near_malloc_class_stats(n, &c, sizeof(c)) == 0; n++)
		if (size <= c.size)
			return c;
	fail_msg("no class for %zu bytes", size);
	return c;
}

#endif
