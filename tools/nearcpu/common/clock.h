/* SPDX-License-Identifier: MIT */
/* clock: times in seconds. */
#ifndef NEARCPU_CLOCK_H
#define NEARCPU_CLOCK_H

#include <sys/time.h>
#include <time.h>

/* Of the monotonic clock. */
static inline double now_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static inline double to_seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

#endif
