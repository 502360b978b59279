/* SPDX-License-Identifier: MIT */
/* heap: allocation that leaves errno alone. */
#ifndef NEARCPU_HEAP_H
#define NEARCPU_HEAP_H

#include <errno.h>
#include <stdlib.h>

/* Compilers take it that allocation leaves errno alone, and would leave this out. */
static inline void near__heap_set_errno(int saved)
{
	__asm__ volatile("" ::: "memory");
	errno = saved;
}

/* Zeroed; NULL without memory. */
static inline void *near__heap_zeroed(size_t n, size_t size)
{
	int saved = errno;
	void *p = calloc(n, size);

	near__heap_set_errno(saved);
	return p;
}

#endif
