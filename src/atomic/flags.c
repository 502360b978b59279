/* SPDX-License-Identifier: MIT */
/* The symbols that are not for objects of a certain type: test_and_set of each size, atomic_flag,
 * fences, floating-point exceptions. */
#include <fenv.h>
#include <float.h>

#include "atomic/sized.h"

/* Stores 1, which compilers use for true. Only the first byte of a wider object changes. */
static bool set_first_byte(volatile void *p)
{
	unsigned char one = 1, seen;

	if (NEAR__NARROWEST == 1)
		return __atomic_exchange_n((unsigned char *)p, 1, __ATOMIC_SEQ_CST) != 0;
	near__word4_exchange(1, (void *)p, &one, &seen);
	return seen != 0;
}

#define TEST_AND_SET(n)                                                                            \
	NEAR__DEFINE(bool, near__test_and_set_##n, __atomic_test_and_set_##n,                      \
		     (volatile void *p, int order))                                                \
	{                                                                                          \
		(void)order;                                                                       \
		return set_first_byte(p);                                                          \
	}

TEST_AND_SET(1)
TEST_AND_SET(2)
TEST_AND_SET(4)
TEST_AND_SET(8)
#ifdef __SIZEOF_INT128__
TEST_AND_SET(16)
#endif

/* ---- atomic_flag: a byte ---- */

NEAR__DEFINE(bool, near__flag_set, atomic_flag_test_and_set, (volatile void *flag))
{
	return set_first_byte(flag);
}

NEAR__DEFINE(bool, near__flag_set_explicit, atomic_flag_test_and_set_explicit,
	     (volatile void *flag, int order))
{
	(void)order;
	return set_first_byte(flag);
}

NEAR__DEFINE(void, near__flag_clear, atomic_flag_clear, (volatile void *flag))
{
	__atomic_store_n((unsigned char *)flag, 0, __ATOMIC_SEQ_CST);
}

NEAR__DEFINE(void, near__flag_clear_explicit, atomic_flag_clear_explicit,
	     (volatile void *flag, int order))
{
	if (near__is_sc(order))
		near__flag_clear(flag);
	else
		__atomic_store_n((unsigned char *)flag, 0, __ATOMIC_RELEASE);
}

/* ---- fences ---- */

NEAR__DEFINE(void, near__thread_fence, atomic_thread_fence, (int order))
{
	if (near__is_sc(order))
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	else if (order != __ATOMIC_RELAXED)
		__atomic_thread_fence(__ATOMIC_ACQ_REL);
}

/* A call of an unknown function is such a fence for the compiler. */
NEAR__DEFINE(void, near__signal_fence, atomic_signal_fence, (int order))
{
	(void)order;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* ---- floating point ---- */

/* As feraiseexcept, but without libm: by operations that raise the exceptions. Overflow and
 * underflow also raise "inexact", as C allows. */
NEAR__DEFINE(void, near__raise, __atomic_feraiseexcept, (int excepts))
{
	volatile float zero = 0, one = 1, big = FLT_MAX, small = FLT_MIN, result;

	(void)zero, (void)one, (void)big, (void)small, (void)excepts;
#ifdef FE_INVALID
	if (excepts & FE_INVALID)
		result = zero / zero;
#endif
#ifdef FE_DIVBYZERO
	if (excepts & FE_DIVBYZERO)
		result = one / zero;
#endif
#ifdef FE_OVERFLOW
	if (excepts & FE_OVERFLOW)
		result = big * big;
#endif
#ifdef FE_UNDERFLOW
	if (excepts & FE_UNDERFLOW)
		result = small * small;
#endif
#ifdef FE_INEXACT
	if (excepts & FE_INEXACT)
		result = one / (volatile float){3};
#endif
#ifdef NEAR__FE_DENORMAL
	if (excepts & NEAR__FE_DENORMAL)
		result = (volatile float){FLT_TRUE_MIN} + one;
#endif
	(void)result;
}
