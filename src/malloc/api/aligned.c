/* SPDX-License-Identifier: MIT */
/* posix_memalign, aligned_alloc and the older functions with an alignment. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/bits.h"
#include "malloc/api/fast.h"

static bool is_power_of_two(size_t n)
{
	return n && !(n & (n - 1));
}

/* Stores ENOMEM in errno as well, like glibc. */
NEAR__ENTRY int posix_memalign(void **out, size_t align, size_t n)
{
	void *p;

	if (!is_power_of_two(align) || align % sizeof(void *))
		return EINVAL;
	p = near__alloc_aligned(align, n, NEAR__CALLER);
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

/* Rounds the alignment up to a power of two. */
static void *aligned_rounded(size_t align, size_t n, const void *caller)
{
	size_t power = 16;

	if (align > SIZE_MAX / 2 + 1) {
		errno = EINVAL;
		return NULL;
	}
	while (power < align)
		power *= 2;
	return near__alloc_aligned(power, n, caller);
}

NEAR__ENTRY void *memalign(size_t align, size_t n)
{
	return aligned_rounded(align, n, NEAR__CALLER);
}

/* As glibc up to 2.37. Newer ones refuse an alignment that is no power of two: a program that works
 * with either works here. */
NEAR__ENTRY void *aligned_alloc(size_t align, size_t n)
{
	return aligned_rounded(align, n, NEAR__CALLER);
}

NEAR__ENTRY void *valloc(size_t n)
{
	return near__alloc_aligned(near__page_size(), n, NEAR__CALLER);
}

NEAR__ENTRY void *pvalloc(size_t n)
{
	size_t page = near__page_size();

	if (n > SIZE_MAX - page)
		return near__no_memory();
	return near__alloc_aligned(page, near__round_up(n, page), NEAR__CALLER);
}

NEAR__ALIAS(aligned_alloc, near__own_aligned_alloc, visibility("hidden"));
#ifdef __GLIBC__
NEAR__ALIAS(memalign, __libc_memalign, weak, visibility("default"));
NEAR__ALIAS(valloc, __libc_valloc, weak, visibility("default"));
NEAR__ALIAS(pvalloc, __libc_pvalloc, weak, visibility("default"));
#endif
