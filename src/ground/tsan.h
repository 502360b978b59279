/* SPDX-License-Identifier: MIT */
/* tsan: annotations for ThreadSanitizer in a program whose library was built without it: what the
 * library's calls order. They use the same addresses as the program's own atomics. Without
 * ThreadSanitizer these functions do not exist: hence weak. */
#ifndef NEARCPU_TSAN_H
#define NEARCPU_TSAN_H

#include <nearcpu/lock.h>
#include <nearcpu/tsan.h>
#include <stddef.h>

#if NEAR__TSAN
#define NEAR__TSAN_HERE 1
#else
#pragma weak __tsan_acquire
#pragma weak __tsan_release
#define NEAR__TSAN_HERE __builtin_expect(__tsan_acquire != NULL, 0)
#endif

/* In the core the same is reported to helgrind and DRD, see lock.h. */
static inline void near__report_acquire(const void *p)
{
	if (NEAR__TSAN_HERE)
		__tsan_acquire((void *)(uintptr_t)p);
	NEAR__WATCHED_ACQUIRE(p);
}

static inline void near__report_release(const void *p)
{
	if (NEAR__TSAN_HERE)
		__tsan_release((void *)(uintptr_t)p);
	NEAR__WATCHED_RELEASE(p);
}

#undef NEAR__TSAN_ACQUIRE
#undef NEAR__TSAN_RELEASE
#define NEAR__TSAN_ACQUIRE(p) near__report_acquire(p)
#define NEAR__TSAN_RELEASE(p) near__report_release(p)

#endif
