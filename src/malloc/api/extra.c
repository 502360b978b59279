/* SPDX-License-Identifier: MIT */
/* reallocarray, C23's free_sized, an old function of C libraries, and functions of other
 * allocators. They call the public realloc and free, which the program, or valgrind, may have
 * replaced. */
#include <stdlib.h>

#include "base/bits.h"
#include "malloc/api/fast.h"
#include "malloc/base/lookup.h"
#include "malloc/diagnostics/hooks.h"

NEAR__ENTRY void cfree(void *p);
NEAR__ENTRY void free_sized(void *p, size_t n);
NEAR__ENTRY void free_aligned_sized(void *p, size_t align, size_t n);
NEAR__ENTRY size_t nallocx(size_t n, int flags);
NEAR__ENTRY void sdallocx(void *p, size_t n, int flags);
NEAR__ENTRY size_t malloc_good_size(size_t n);

NEAR__ENTRY void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return near__no_memory();
	return realloc(p, bytes);
}

NEAR__ENTRY void cfree(void *p)
{
	free(p);
}

/* n is the requested size: C23. */
static __attribute__((noinline)) void free_of_size(void *p, size_t n)
{
	struct near__place at;

	if (near__is_checked(p, &at))
		near__check_free(at, n, NEAR__BY_MALLOC, NEAR__CALLER);
	else
		free(p);
}

NEAR__ENTRY void free_sized(void *p, size_t n)
{
	free_of_size(p, n);
}

NEAR__ENTRY void free_aligned_sized(void *p, size_t align, size_t n)
{
	(void)align;
	free_of_size(p, n);
}

/* The usable size of malloc(n) from now on; 0: too much. The caller may use all of it, so that it
 * must hold when the heap grows: all classes are used from now on. */
static size_t good_size(size_t n)
{
	size_t rounded = near__round_up(n, NEAR__PAGE);

	near__lookup_all();
	if (n <= NEAR__SMALL_MAX)
		return near__sizes[near__class_compute(n ? n : 1)].size;
	return rounded <= PTRDIFF_MAX && rounded >= n ? rounded : 0;
}

/* The low six bits of `flags` are the logarithm of an alignment. */
NEAR__ENTRY size_t nallocx(size_t n, int flags)
{
	size_t align = (size_t)1 << (flags & 63);
	size_t size = n < align ? align : n;

	if (align <= 16)
		return good_size(size);
	size = size > PTRDIFF_MAX ? 0 : good_size(near__round_up(size, align));
	while (size && size <= NEAR__SMALL_MAX && size & (align - 1))
		size = good_size(size + 1);
	return size;
}

/* jemalloc's: any size from the requested one to the usable one is correct. */
NEAR__ENTRY void sdallocx(void *p, size_t n, int flags)
{
	struct near__place at;

	if (near__is_checked(p, &at)) {
		size_t had = near__check_size(at);

		n = n >= had && n <= nallocx(had, flags) ? had : n;
	}
	free_of_size(p, n);
}

NEAR__ENTRY size_t malloc_good_size(size_t n)
{
	size_t size = good_size(n);

	return size ? size : n;
}
