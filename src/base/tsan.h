/* SPDX-License-Identifier: MIT */
/* tsan: whether the program has ThreadSanitizer, if this library was built without it. Without
 * ThreadSanitizer its functions do not exist: hence weak. */
#ifndef NEARCPU_TSAN_H
#define NEARCPU_TSAN_H

#include <nearcpu/detail/tsan.h>
#include <stddef.h>

#if NEAR__TSAN
#define NEAR__TSAN_HERE 1
#else
#pragma weak __tsan_acquire
#pragma weak __tsan_release
#define NEAR__TSAN_HERE __builtin_expect(__tsan_acquire != NULL, 0)
#endif

/* The core notifies by near__watched_acquire, which begins with these (valgrind.c). */
#if !NEAR__TSAN && !NEAR_VALGRIND
#undef NEAR__TSAN_ACQUIRE
#undef NEAR__TSAN_RELEASE
#define NEAR__TSAN_ACQUIRE(p) near__report_acquire(p)
#define NEAR__TSAN_RELEASE(p) near__report_release(p)

static inline void near__report_acquire(const void *p)
{
	if (NEAR__TSAN_HERE)
		__tsan_acquire((void *)(uintptr_t)p);
}

static inline void near__report_release(const void *p)
{
	if (NEAR__TSAN_HERE)
		__tsan_release((void *)(uintptr_t)p);
}
#endif

#endif
