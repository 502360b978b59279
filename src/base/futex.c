/* SPDX-License-Identifier: MIT */
/* The system call futex, with a time of the width that it takes.
 *
 * Where long has 64 bits, that is the C library's timespec. Where long has 32 bits, SYS_futex takes
 * two of these, while the C library's time_t may have 64 (musl, glibc with _TIME_BITS=64): the call
 * would read the upper half of the seconds, 0, as the nanoseconds. There SYS_futex_time64, which
 * takes two numbers of 64 bits, is called, and SYS_futex only on kernels before 5.1. */
#include "base/futex.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MATCH_ANY UINT32_MAX
#define NS_PER_S INT64_C(1000000000)

#if LONG_MAX == INT32_MAX && defined(SYS_futex_time64)
static long futex_call(const uint32_t *word, int op, uint32_t value, int64_t ns)
{
	int64_t wide[2] = {ns / NS_PER_S, ns % NS_PER_S}, *time = ns == NEAR__FOREVER ? NULL : wide;
	long r = syscall(SYS_futex_time64, word, op, value, time, NULL, MATCH_ANY);
#ifdef SYS_futex
	if (r < 0 && errno == ENOSYS) {
		long narrow[2] = {wide[0] < LONG_MAX ? (long)wide[0] : LONG_MAX, (long)wide[1]};

		r = syscall(SYS_futex, word, op, value, time ? narrow : NULL, NULL, MATCH_ANY);
	}
#endif
	return r;
}
#else
static long futex_call(const uint32_t *word, int op, uint32_t value, int64_t ns)
{
	const struct timespec time = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

	return syscall(SYS_futex, word, op, value, ns == NEAR__FOREVER ? NULL : &time, NULL,
		       MATCH_ANY);
}
#endif

/* It has no time, so that both calls do the same. */
#ifdef SYS_futex
#define FUTEX_WITHOUT_TIME SYS_futex
#else
#define FUTEX_WITHOUT_TIME SYS_futex_time64
#endif

int near__futex(const uint32_t *word, int op, uint32_t value, int64_t ns)
{
	int saved = errno;
	long r = futex_call(word, op, value, ns);

	r = r < 0 ? -errno : r;
	errno = saved;
	return (int)r;
}

int near__futex_wake_op(uint32_t *word, int n, uint32_t change)
{
	int saved = errno;
	long r = syscall(FUTEX_WITHOUT_TIME, word, NEAR__FUTEX_WAKE_OP_PRIVATE, n, NULL, word,
			 change);

	r = r < 0 ? -errno : r;
	errno = saved;
	return (int)r;
}

int near__futex_sleep(const uint32_t *word, uint32_t value, int64_t ns, bool shared)
{
	int op = NEAR__FUTEX_WAIT | (shared ? 0 : NEAR__FUTEX_PRIVATE);

	return near__futex(word, op, value, ns);
}

int near__futex_wake(uint32_t *word, int n, bool shared)
{
	int op = NEAR__FUTEX_WAKE | (shared ? 0 : NEAR__FUTEX_PRIVATE);
	int woken = near__futex(word, op, (uint32_t)n, NEAR__FOREVER);

	return woken < 0 ? 0 : woken;
}
