/* SPDX-License-Identifier: MIT */
/* glibc has second functions for numbers of 64 bits where long has 32: with _TIME_BITS=64 and
 * _FILE_OFFSET_BITS=64 a call of clock_gettime is one of __clock_gettime64. There near_add_test
 * wraps the second name. WIDE_NAME, after a declaration, gives a wrapper that name. */
#ifndef NEARCPU_TESTS_WIDE_NAMES_H
#define NEARCPU_TESTS_WIDE_NAMES_H

#include <time.h>

#if defined(__TIMESIZE) && __TIMESIZE == 32 && defined(_TIME_BITS) && _TIME_BITS == 64
#define WIDE_NAME(name) __asm__(name)
#else
#define WIDE_NAME(name)
#endif

#endif
