/* SPDX-License-Identifier: MIT */
/* Deadlines of waits, and the futex calls. */
#define _GNU_SOURCE
#include "timeout.h"

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ground/futex.h"

#define NS_PER_S INT64_C(1000000000)

#define MATCH_ANY UINT32_MAX

/* The futex does not support CLOCK_BOOTTIME, and the clocks that it supports stop or jump when the
 * machine is suspended. So a waiter reads the clock at this interval, and returns at most this late
 * after the machine has resumed. */
#define BOOTTIME_INTERVAL NS_PER_S

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

/* futex(2): its result or a negative errno; errno is left alone. */
static int futex(uint32_t *word, int op, uint32_t value, const struct timespec *until)
{
	int saved = errno;
	long r = syscall(NEAR__SYS_FUTEX, word, op, value, until, NULL, MATCH_ANY);

	r = r < 0 ? -errno : r;
	errno = saved;
	return (int)r;
}

/* The time at which FUTEX_WAIT returns: of CLOCK_REALTIME, or else of CLOCK_MONOTONIC. */
static int64_t return_at(const struct near__timeout *t)
{
	int64_t left;

	if (t->clock != CLOCK_BOOTTIME)
		return t->deadline < 0 ? 0 : t->deadline;
	left = t->deadline - near__now(CLOCK_BOOTTIME);
	return near__now(CLOCK_MONOTONIC) + (left < BOOTTIME_INTERVAL ? left : BOOTTIME_INTERVAL);
}

int near__futex_wait(uint32_t *word, uint32_t value, const struct near__timeout *t, bool shared)
{
	int op = NEAR__FUTEX_WAIT_BITSET | (shared ? 0 : NEAR__FUTEX_PRIVATE), r;
	bool timed = t->deadline != NEAR__NEVER, boottime = timed && t->clock == CLOCK_BOOTTIME;
	struct timespec until = {0, 0};

	if (boottime && near__now(CLOCK_BOOTTIME) >= t->deadline)
		return -ETIMEDOUT;
	if (timed) {
		int64_t at = return_at(t);

		until.tv_sec = (time_t)(at / NS_PER_S);
		until.tv_nsec = (long)(at % NS_PER_S);
		op |= t->clock == CLOCK_REALTIME ? NEAR__FUTEX_CLOCK_REALTIME : 0;
	}
	r = futex(word, op, value, timed ? &until : NULL);
	if (r == -ETIMEDOUT && !boottime)
		return r;
	return r == -EINTR && t->interruptible ? r : 0;
}

int near__futex_wake(uint32_t *word, int n, bool shared)
{
	int op = NEAR__FUTEX_WAKE | (shared ? 0 : NEAR__FUTEX_PRIVATE);
	int woken = futex(word, op, (uint32_t)n, NULL);

	return woken < 0 ? 0 : woken;
}
