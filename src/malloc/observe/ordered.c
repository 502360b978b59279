/* SPDX-License-Identifier: MIT */
/* A program with ThreadSanitizer, which does not see that a block which one thread frees reaches
 * another by this library: it would take two uses of the memory for a data race. So each call that
 * frees is reported as a release, and each that allocates as an acquire, of one address: the memory
 * of a block may become part of a block at another place. */
#include <string.h>

#include "ground/tsan.h"
#include "malloc/cache/plain.h"
#include "malloc/observe/hooks.h"

void near__ordered_init(void)
{
	if (!NEAR__TSAN && NEAR__TSAN_HERE)
		near__heap.hooks = NEAR__ORDERED;
}

void *near__ordered_alloc(size_t align, size_t n, bool *zero)
{
	void *p = near__plain_alloc(align, n, zero);

	NEAR__TSAN_ACQUIRE(&near__heap);
	return p;
}

void near__ordered_free(void *p)
{
	NEAR__TSAN_RELEASE(&near__heap);
	near__plain_free(p);
}

/* Never in place: the block would get memory without an acquire. */
void *near__ordered_realloc(void *p, size_t n)
{
	size_t had = near__plain_size(p);
	bool zero = false;
	void *q = near__ordered_alloc(1, n, &zero);

	if (!q)
		return NULL;
	memcpy(q, p, had < n ? had : n);
	near__ordered_free(p);
	return q;
}
