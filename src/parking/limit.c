/* SPDX-License-Identifier: MIT */
/* Deadlines and futex calls, see limit.h. */
#define _GNU_SOURCE
#include "limit.h"

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

/* The kernel's numbers: not every C library comes with its headers. */
#define FUTEX_WAKE 1
#define FUTEX_WAIT_BITSET 9
#define FUTEX_PRIVATE 128
#define FUTEX_CLOCK_REALTIME 256
#define MATCH_ANY UINT32_MAX

/* Where time_t is 64 bits wide and long is not, the old call takes other times than the C library
 * makes. */
#ifdef SYS_futex_time64
#define SYS_FUTEX (sizeof(time_t) > sizeof(long) ? SYS_futex_time64 : SYS_futex)
#else
#define SYS_FUTEX SYS_futex
#endif

/* The futex knows no CLOCK_BOOTTIME, and the clocks that it knows stand still or jump when the
 * machine sleeps. So a waiter looks at the clock this often, and returns at most this much late
 * after the machine woke up. */
#define BOOTTIME_LOOKS NS_PER_S

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

int near__limit_set(struct near__limit *l, clockid_t clock, const struct timespec *deadline,
		    struct near_cancel *cancel)
{
	*l = NEAR__NO_LIMIT;
	l->cancel = cancel;
	l->interruptible = (clock & ~CLOCKS) == NEAR_INTERRUPTIBLE;
	if (l->interruptible)
		clock &= CLOCKS;
	if (!deadline)
		return 0;
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME)
		return -EINVAL;
	if (!near__is_time(deadline))
		return -EINVAL;
	l->clock = clock;
	l->deadline = near__ns_of(deadline);
	return 0;
}

/* futex(2): 0 or a negative errno; errno is left alone. */
static int futex(uint32_t *word, int op, uint32_t value, const struct timespec *until)
{
	int saved = errno;
	long r = syscall(SYS_FUTEX, word, op, value, until, NULL, MATCH_ANY);

	r = r < 0 ? -errno : r;
	errno = saved;
	return r < 0 ? (int)r : 0;
}

/* The time at which the kernel is to send the waiter back, by CLOCK_MONOTONIC where not by
 * CLOCK_REALTIME. */
static int64_t look_at(const struct near__limit *l)
{
	int64_t left;

	if (l->clock != CLOCK_BOOTTIME)
		return l->deadline < 0 ? 0 : l->deadline;
	left = l->deadline - near__now(CLOCK_BOOTTIME);
	return near__now(CLOCK_MONOTONIC) + (left < BOOTTIME_LOOKS ? left : BOOTTIME_LOOKS);
}

int near__futex_wait(uint32_t *word, uint32_t value, const struct near__limit *l, bool shared)
{
	int op = FUTEX_WAIT_BITSET | (shared ? 0 : FUTEX_PRIVATE), r;
	bool timed = l->deadline != NEAR__NEVER, boottime = timed && l->clock == CLOCK_BOOTTIME;
	struct timespec until = {0, 0};

	if (boottime && near__now(CLOCK_BOOTTIME) >= l->deadline)
		return -ETIMEDOUT;
	if (timed) {
		int64_t at = look_at(l);

		until.tv_sec = (time_t)(at / NS_PER_S);
		until.tv_nsec = (long)(at % NS_PER_S);
		op |= l->clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0;
	}
	r = futex(word, op, value, timed ? &until : NULL);
	if (r == -ETIMEDOUT && !boottime)
		return r;
	return r == -EINTR && l->interruptible ? r : 0;
}

void near__futex_wake(uint32_t *word, int n, bool shared)
{
	futex(word, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE), (uint32_t)n, NULL);
}
