/* SPDX-License-Identifier: MIT */
/* Clocks that a test sets. For programs linked with --wrap=clock_gettime, which define
 * clock_of_test. */
#ifndef NEARCPU_TESTS_CLOCK_H
#define NEARCPU_TESTS_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "wide_names.h"

#define REAL_CLOCK (-1)

/* The time in ns that this clock shows, or REAL_CLOCK. */
static int64_t clock_of_test(clockid_t clock);

int __real_clock_gettime(clockid_t clock, struct timespec *t) WIDE_NAME("__real___clock_gettime64");
int __wrap_clock_gettime(clockid_t clock, struct timespec *t) WIDE_NAME("__wrap___clock_gettime64");

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int64_t ns = clock_of_test(clock);

	if (ns == REAL_CLOCK)
		return __real_clock_gettime(clock, t);
	*t = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	return 0;
}

#endif
