/* SPDX-License-Identifier: MIT */
/* clock: times in nanoseconds. near__now (parking/timeout.h) is a function, which tests replace. */
#ifndef NEARCPU_CLOCK_H
#define NEARCPU_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t near__nanoseconds(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 0 where there is no such clock; errno is then set. */
static inline uint64_t near__clock_ns(clockid_t clock)
{
	struct timespec t = {0, 0};

	clock_gettime(clock, &t);
	return near__nanoseconds(t);
}

#endif
