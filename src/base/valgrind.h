/* SPDX-License-Identifier: MIT */
/* Annotations for helgrind and DRD, for when valgrind runs the program; see NEAR_VALGRIND in
 * nearcpu/detail/tsan.h. */
#ifndef NEARCPU_BASE_VALGRIND_H
#define NEARCPU_BASE_VALGRIND_H

#include <nearcpu/lock.h>
#include <stddef.h>

void near__valgrind_ignore_range(const void *p, size_t size);

/* Suppresses race reports for memory that plain atomic stores change, or that is read while other
 * threads change it. */
static inline void near__valgrind_ignore(const void *p, size_t size)
{
	if (__builtin_expect(near__is_watched != 0, 0))
		near__valgrind_ignore_range(p, size);
}

/* Of a function that does so for the library's own state: it is called after detect_tool
 * (valgrind.c), and before constructors of a program that use the library. */
#define NEAR__BEFORE_PROGRAM __attribute__((constructor(102)))

#endif
