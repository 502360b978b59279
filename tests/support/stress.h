/* SPDX-License-Identifier: MIT */
/* A stress test runs once, or again and again for NEAR_STRESS_SECONDS. */
#ifndef NEARCPU_TESTS_STRESS_H
#define NEARCPU_TESTS_STRESS_H

#include <stdlib.h>
#include <time.h>

static inline void stress_run(void (*once)(void))
{
	const char *seconds = getenv("NEAR_STRESS_SECONDS");
	time_t end = time(NULL) + (seconds ? atoi(seconds) : 0);

	do
		once();
	while (time(NULL) < end);
}

#endif
