/* SPDX-License-Identifier: MIT */
/* Call stacks, by glibc's backtrace, which loads the unwinder at its first call, or libunwind's
 * function of that name. Without one (musl, static programs that do not use it) a stack is the
 * caller alone. */
#include <string.h>

#include "malloc/diagnostics/profile.h"

#define OURS 8 /* frames of this library, at most */

int backtrace(void **stack, int size) __attribute__((weak));

bool near__stack_prime(void)
{
	void *stack[2];

	return !backtrace || backtrace(stack, 2) >= 0;
}

unsigned near__stack_take(const void **stack, const void *caller)
{
	void *frames[NEAR__STACK_MAX + OURS];
	int n = backtrace ? backtrace(frames, NEAR__STACK_MAX + OURS) : 0, first = 0;

	while (first < n && frames[first] != caller)
		first++;
	n -= first;
	if (n <= 0) { /* the unwinder does not get so far */
		stack[0] = caller;
		return 1;
	}
	n = n < NEAR__STACK_MAX ? n : NEAR__STACK_MAX;
	memcpy(stack, frames + first, (size_t)n * sizeof(*stack));
	return (unsigned)n;
}
