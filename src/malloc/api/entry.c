/* SPDX-License-Identifier: MIT */
/* malloc, free, calloc, realloc: glibc's semantics. own.c has the same under names of its own. No
 * function here calls another one of these by its public name: see other.h. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>

#include "malloc/api/fast.h"
#include "malloc/diagnostics/hooks.h"

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

/* For other.c: what the public names are as long as the program has not replaced them. */
NEAR__ALIAS(malloc, near__own_malloc, visibility("hidden"));
NEAR__ALIAS(realloc, near__own_realloc, visibility("hidden"));
NEAR__ALIAS(free, near__own_free, visibility("hidden"));

/* Names of glibc for the same functions. Weak: a static program may contain glibc's. */
#ifdef __GLIBC__
NEAR__ALIAS(malloc, __libc_malloc, weak, visibility("default"));
NEAR__ALIAS(free, __libc_free, weak, visibility("default"));
NEAR__ALIAS(calloc, __libc_calloc, weak, visibility("default"));
NEAR__ALIAS(realloc, __libc_realloc, weak, visibility("default"));
#endif
