/* SPDX-License-Identifier: MIT */
/* The slow paths behind the entry points of both libraries: entry.c, which takes the place of the C
 * library's malloc, and own.c. */
#include <string.h>

#include "malloc/api/fast.h"
#include "malloc/api/other.h"
#include "malloc/cache/thread_cache.h"
#include "malloc/observe/hooks.h"

/* In libnearcpu-malloc alone. */
#pragma weak near__free_other
#pragma weak near__resize_other

/* Not inlined: what a thread takes from its own lists then needs no stack frame. */
static __attribute__((noinline)) void *alloc_slower(size_t n, const void *caller)
{
	bool zero = false;
	void *p;

	if (n < near__heap.slot_limit && near__pop_by_slot(near__entry_of(near__class_of(n)), &p))
		return p;
	return near__heap_ready() ? near__hooked_alloc(1, n, caller, &zero) : near__no_memory();
}

__attribute__((noinline)) void *near__alloc_slow(size_t n, const void *caller)
{
	void *p;

	if (n < near__heap.local_limit && (p = near__thread_cache_take(near__class_of(n))))
		return p;
	return alloc_slower(n, caller);
}

static bool free_to_thread_cache(void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned tag, class;

	if (offset >= near__heap.local_size)
		return false;
	tag = near__heap.page_map[offset >> NEAR__PAGE_SHIFT];
	return near__begins(tag, offset, &class) && near__thread_cache_put(class, p);
}

__attribute__((noinline)) void near__free_slow(void *p)
{
	if (!p || free_to_thread_cache(p))
		return;
	if (NEAR__UNLIKELY(!near__is_own(p)) && near__free_other && near__free_other(p))
		return;
	near__hooked_free(p, NEAR__CALLER);
}

void *near__alloc_aligned(size_t align, size_t n, const void *caller)
{
	bool zero = false;

	if (align <= 8 || (align == 16 && n > 8))
		return near__alloc(n, caller);
	if (!near__heap_ready())
		return near__no_memory();
	return near__hooked_alloc(align, n, caller, &zero);
}

static void *move(void *p, size_t had, size_t n, const void *caller)
{
	void *q = near__alloc(n, caller);

	if (!q)
		return NULL;
	memcpy(q, p, had < n ? had : n);
	near__free(p);
	return q;
}

void *near__resize(void *p, size_t n, const void *caller)
{
	size_t had;
	void *q;

	if (!p)
		return near__alloc(n, caller);
	if (n == 0) {
		near__free(p);
		return NULL;
	}
	if (NEAR__UNLIKELY(!near__is_own(p)) && near__resize_other && near__resize_other(&p, n))
		return p;
	if (NEAR__UNLIKELY(near__heap.hooks) && near__heap.hooks != NEAR__PERTURBED)
		return near__hooked_realloc(p, n, caller);
	had = near__hooked_size(p);
	if (had > NEAR__SMALL_MAX && n > NEAR__SMALL_MAX) {
		q = near__large_resize(p, n);
		return q ? q : near__no_memory();
	}
	return n <= had && n > had / 2 ? near__plain_cut(p, had, n) : move(p, had, n, caller);
}
