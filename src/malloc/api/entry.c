/* SPDX-License-Identifier: MIT */
/* malloc, free, calloc, realloc: glibc's semantics. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "malloc/api/fast.h"
#include "malloc/cache/thread_cache.h"
#include "malloc/observe/hooks.h"
#include "malloc/pages/pages.h"

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
	if (p && !free_to_thread_cache(p))
		near__hooked_free(p, NEAR__CALLER);
}

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
	size_t bytes;
	bool zero = false;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes))
		return near__no_memory();
	if (bytes > NEAR__SMALL_MAX && near__heap_ready()) {
		zero = true;
		p = near__hooked_alloc(1, bytes, NEAR__CALLER, &zero);
	} else {
		p = near__alloc(bytes, NEAR__CALLER);
	}
	if (p && !zero)
		memset(p, 0, bytes);
	return p;
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

static void *resize(void *p, size_t n, const void *caller)
{
	size_t had;
	void *q;

	if (!p)
		return near__alloc(n, caller);
	if (n == 0) {
		near__free(p);
		return NULL;
	}
	if (NEAR__UNLIKELY(near__heap.hooks) && near__heap.hooks != NEAR__PERTURBED)
		return near__hooked_realloc(p, n, caller);
	had = near__hooked_size(p);
	if (had > NEAR__SMALL_MAX && n > NEAR__SMALL_MAX) {
		q = near__large_resize(p, n);
		return q ? q : near__no_memory();
	}
	return n <= had && n > had / 2 ? p : move(p, had, n, caller);
}

NEAR__ENTRY void *realloc(void *p, size_t n)
{
	return resize(p, n, NEAR__CALLER);
}

NEAR__ENTRY void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return near__no_memory();
	return resize(p, bytes, NEAR__CALLER);
}

NEAR__ENTRY size_t malloc_usable_size(void *p)
{
	return p ? near__hooked_size(p) : 0;
}
