/* SPDX-License-Identifier: MIT */
/* malloc, free, calloc, realloc: glibc's semantics. own.c has the same under names of its own. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>

#include "malloc/api/fast.h"
#include "malloc/observe/hooks.h"

static __attribute__((noinline)) void *malloc_slow(size_t n)
{
	return near__alloc_slow(n, NEAR__CALLER);
}

/* Aligned, so that their speed does not depend on what is linked in front of them. */
#define ALIGNED __attribute__((aligned(NEAR__CACHE_LINE)))

NEAR__ENTRY ALIGNED void *malloc(size_t n)
{
	void *p;

	return near__alloc_fast(n, &p) ? p : malloc_slow(n);
}

NEAR__ENTRY ALIGNED void free(void *p)
{
	near__free(p);
}

NEAR__ENTRY void *calloc(size_t n, size_t size)
{
	return near__alloc_zeroed(n, size, NEAR__CALLER);
}

NEAR__ENTRY void *realloc(void *p, size_t n)
{
	return near__resize(p, n, NEAR__CALLER);
}

NEAR__ENTRY void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return near__no_memory();
	return near__resize(p, bytes, NEAR__CALLER);
}

NEAR__ENTRY size_t malloc_usable_size(void *p)
{
	return p ? near__hooked_size(p) : 0;
}
