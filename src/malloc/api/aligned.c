/* SPDX-License-Identifier: MIT */
/* Aligned blocks: a class whose size is a multiple of the alignment, else whole granules. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "malloc/api/fast.h"
#include "malloc/observe/hooks.h"

#define PAGE ((size_t)4096)

static bool is_power_of_two(size_t n)
{
	return n && !(n & (n - 1));
}

/* Spans begin at granules, so blocks stand at multiples of what divides their size. 0: no class. */
static unsigned aligned_class(size_t align, size_t n)
{
	unsigned class;

	n = n < align ? align : n;
	if (align > NEAR__GRANULE || n > NEAR__SMALL_MAX)
		return 0;
	class = near__class_of(n);
	while (class <= NEAR__SIZES && near__sizes[class].size & (align - 1))
		class ++;
	return class <= NEAR__SIZES ? class : 0;
}

static void *try_alloc(size_t align, size_t n, bool *zero)
{
	unsigned class = aligned_class(align, n);
	void *p;

	*zero = false;
	if (class)
		return near__alloc_class(class);
	p = near__large_alloc(n ? n : 1, align, zero);
	return p ? p : near__no_memory();
}

void *near__plain_alloc(size_t align, size_t n, bool *zero)
{
	int saved = errno;
	void *p = try_alloc(align, n, zero);

	if (NEAR__LIKELY(p != NULL) || n >= near__heap.size)
		return p;
	/* With what all caches hold. It costs interrupts, but the system has no more. */
	near__reclaim();
	p = try_alloc(align, n, zero);
	errno = p ? saved : ENOMEM;
	return p;
}

void *near__alloc_aligned(size_t align, size_t n, const void *caller)
{
	bool zero = false;

	if (align <= 8 || (align == 16 && n > 8))
		return near__alloc(n, caller);
	if (!near__heap_ready())
		return near__no_memory();
	return near__heap.hooks ? near__hooked_alloc(align, n, caller, &zero)
				: near__plain_alloc(align, n, &zero);
}

/* ENOMEM stands in errno, too: glibc's way. */
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

/* What is no power of two is rounded up to one. */
static void *rounded(size_t align, size_t n, const void *caller)
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
	return rounded(align, n, NEAR__CALLER);
}

/* As glibc up to 2.37. Newer ones refuse what is no power of two: who relies on either finds here
 * what works in both. */
NEAR__ENTRY void *aligned_alloc(size_t align, size_t n)
{
	return rounded(align, n, NEAR__CALLER);
}

NEAR__ENTRY void *valloc(size_t n)
{
	return near__alloc_aligned(PAGE, n, NEAR__CALLER);
}

NEAR__ENTRY void *pvalloc(size_t n)
{
	if (n > SIZE_MAX - PAGE)
		return near__no_memory();
	return near__alloc_aligned(PAGE, (n + PAGE - 1) & ~(PAGE - 1), NEAR__CALLER);
}
