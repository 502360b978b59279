/* SPDX-License-Identifier: MIT */
/* Deadlines of waits. */
#define _GNU_SOURCE
#include "parking/timeout.h"

#include <errno.h>

#define NS_PER_S INT64_C(1000000000)

#define CLOCKS 0xff /* the bits of their numbers */

bool near__is_time(const struct timespec *t)
{
	return t->tv_nsec >= 0 && t->tv_nsec < NS_PER_S;
}

int64_t near__ns_of(const struct timespec *t)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)t->tv_sec, NS_PER_S, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)t->tv_nsec, &ns))
		return t->tv_sec < 0 ? INT64_MIN : NEAR__NEVER;
	return ns;
}

int64_t near__now(clockid_t clock)
{
	struct timespec now;
	int saved = errno, r = clock_gettime(clock, &now);

	errno = saved;
	return r ? -1 : near__ns_of(&now);
}

int near__timeout_set(struct near__timeout *t, clockid_t clock, const struct timespec *deadline,
		      struct near_cancel *cancel)
{
	*t = NEAR__NO_TIMEOUT;
	t->cancel = cancel;
	t->interruptible = (clock & ~CLOCKS) == NEAR_INTERRUPTIBLE;
	if (t->interruptible)
		clock &= CLOCKS;
	if (!deadline)
		return 0;
	if ((clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME) ||
	    !near__is_time(deadline))
		return -EINVAL;
	t->clock = clock;
	t->deadline = near__ns_of(deadline);
	return 0;
}
