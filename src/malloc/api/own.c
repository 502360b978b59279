/* SPDX-License-Identifier: MIT */
/* near_malloc and its kind: the allocator under names of its own, in libnearcpu-alloc. It has a
 * heap apart from that of the C library's malloc, and from that of libnearcpu-malloc.so, which may
 * be in the same process. */
#include <errno.h>
#include <nearcpu/malloc.h>
#include <stdint.h>

#include "malloc/api/fast.h"
#include "malloc/diagnostics/hooks.h"

/* Aligned, so that their speed does not depend on what is linked in front of them. */
#define ALIGNED __attribute__((aligned(NEAR__CACHE_LINE)))

/* Not inlined: near_malloc then needs no stack frame. */
static __attribute__((noinline)) void *malloc_slow(size_t size)
{
	return near__alloc_slow(size, NEAR__CALLER);
}

ALIGNED void *near_malloc(size_t size)
{
	void *p;

	return near__alloc_fast(size, &p) ? p : malloc_slow(size);
}

ALIGNED void near_free(void *p)
{
	near__free(p);
}

void *near_calloc(size_t n, size_t size)
{
	return near__alloc_zeroed(n, size, NEAR__CALLER);
}

void *near_aligned_alloc(size_t align, size_t size)
{
	if (align == 0 || align & (align - 1)) {
		errno = EINVAL;
		return NULL;
	}
	return near__alloc_aligned(align, size, NEAR__CALLER);
}

void *near_realloc(void *p, size_t size)
{
	return near__resize(p, size, NEAR__CALLER);
}

static __attribute__((noinline)) size_t size_slow(const void *p)
{
	return p ? near__hooked_size(near__place_of(p)) : 0;
}

size_t near_usable_size(const void *p)
{
	size_t size = near__size_fast(p);

	return NEAR__LIKELY(size) ? size : size_slow(p);
}
