/* SPDX-License-Identifier: MIT */
/* For CPUs without atomic accesses of 16 bytes. */
#ifndef NEARCPU_ARCH_NO_WIDE_ATOMIC_H
#define NEARCPU_ARCH_NO_WIDE_ATOMIC_H

#include <stdbool.h>

/* NEAR_ARCH_GENERIC is for tests. */
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16) && !defined(NEAR_ARCH_GENERIC)
#error "libatomic: this CPU needs a header of its own, as programs change 16 bytes without locks"
#endif

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 near__wide;
#else
typedef struct {
	unsigned long long half[2];
} near__wide;
#endif

#define NEAR__HAS_WIDE 0

enum near__wide_mode { NEAR__WIDE_LOCKS, NEAR__WIDE_MODES };
#define NEAR__WIDE_NAMES                                                                           \
	{                                                                                          \
		"locks"                                                                            \
	}

NEAR__INLINE void near__full_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

NEAR__INLINE int near__wide_best(void)
{
	return NEAR__WIDE_LOCKS;
}

NEAR__INLINE bool near__wide_cas(int mode, near__wide *p, near__wide *expected, near__wide desired)
{
	(void)mode, (void)p, (void)expected, (void)desired;
	return false;
}

NEAR__INLINE near__wide near__wide_load(int mode, const near__wide *p)
{
	(void)mode;
	return *p;
}

NEAR__INLINE void near__wide_store(int mode, near__wide *p, near__wide value, bool fence)
{
	(void)mode, (void)p, (void)value, (void)fence;
}

#endif
