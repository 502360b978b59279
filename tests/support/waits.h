/* SPDX-License-Identifier: MIT */
/* What the tests of the locks share: the threads in each queue, and times. */
#ifndef NEARCPU_TESTS_WAITS_H
#define NEARCPU_TESTS_WAITS_H

#include "unit.h"

#include <time.h>

#include "parking/lot.h"

static const clockid_t wait_clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};

static inline unsigned waits_on(const void *address, enum near__space space)
{
	struct near__bucket *b = near__lot_lock(address);
	struct near__waiter *w = near__lot_first(b, address, space);
	unsigned n = 0;

	for (; w; w = near__lot_next(w))
		n++;
	near__lot_unlock(b);
	return n;
}

static inline void wait_for_waits(const void *address, enum near__space space, unsigned n)
{
	UNTIL(waits_on(address, space) == n);
}

static inline struct timespec wait_in_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static inline struct timespec wait_in_ns(uint32_t ns)
{
	struct timespec t = wait_in_ms(CLOCK_MONOTONIC, 0);

	t.tv_nsec += ns;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static inline bool wait_is_past(clockid_t clock, struct timespec t)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec);
}

#endif
