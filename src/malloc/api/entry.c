/* SPDX-License-Identifier: MIT */
/* malloc, free, calloc, realloc: glibc's semantics. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "malloc/api/fast.h"
#include "malloc/observe/hooks.h"

void *near__no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

void *near__alloc_class(unsigned class)
{
	void *p = near__heap.front ? near__front_alloc(class) : near__local_alloc(class);

	return p ? p : near__no_memory();
}

__attribute__((noinline)) void *near__alloc_slow(size_t n, const void *caller)
{
	bool zero = false;
	void *p;

	if (n < near__heap.slot_limit && near__pop_by_slot(near__entry_of(near__class_of(n)), &p))
		return p;
	if (n < near__heap.local_limit && (p = near__local_take(near__class_of(n))))
		return p;
	if (!near__heap_ready())
		return near__no_memory();
	return NEAR__UNLIKELY(near__heap.hooks) ? near__hooked_alloc(1, n, caller, &zero)
						: near__plain_alloc(1, n, &zero);
}

static void free_class(void *p, unsigned class)
{
	if (!near__heap.front)
		near__local_free(class, p);
	else if (!near__push_by_slot(near__entry_of(class), p, near__offset_of(p)))
		near__front_free(class, p);
}

void near__plain_free(void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned kind, class;
	bool begins;

	if (!near__pages_contain(offset))
		near__heap_die("free of a pointer that is not from here", p);
	kind = near__heap.kind[offset >> NEAR__GRANULE_SHIFT];
	begins = near__begins(kind, offset, &class);
	if (kind == NEAR__LARGE)
		near__large_free(p);
	else if (kind == NEAR__SAMPLED)
		near__profile_free(p);
	else if (kind == 0)
		near__heap_die("free of a pointer that is not allocated", p);
	else if (!begins)
		near__heap_die("free of a pointer into a block", p);
	else
		free_class(p, class);
}

static bool free_local(void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned kind, class;

	if (offset >= near__heap.local_size)
		return false;
	kind = near__heap.kind[offset >> NEAR__GRANULE_SHIFT];
	return near__begins(kind, offset, &class) && near__local_put(class, p);
}

__attribute__((noinline)) void near__free_slow(void *p)
{
	if (free_local(p))
		return;
	if (NEAR__UNLIKELY(near__heap.hooks == NEAR__CHECKED) && p)
		near__check_free(p, NEAR__ANY_SIZE, NEAR__BY_MALLOC, NEAR__CALLER);
	else if (NEAR__UNLIKELY(near__heap.hooks == NEAR__PERTURBED) && p)
		near__perturbed_free(p);
	else if (p)
		near__plain_free(p);
}

static __attribute__((noinline)) void *malloc_slow(size_t n)
{
	return near__alloc_slow(n, NEAR__CALLER);
}

NEAR__ENTRY void *malloc(size_t n)
{
	void *p;

	return near__alloc_fast(n, &p) ? p : malloc_slow(n);
}

NEAR__ENTRY void free(void *p)
{
	near__free(p);
}

static void *alloc_large(size_t n, const void *caller, bool *zero)
{
	*zero = true;
	return near__heap.hooks ? near__hooked_alloc(1, n, caller, zero)
				: near__plain_alloc(1, n, zero);
}

NEAR__ENTRY void *calloc(size_t n, size_t size)
{
	size_t bytes;
	bool zero = false;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes))
		return near__no_memory();
	if (bytes > NEAR__SMALL_MAX && near__heap_ready())
		p = alloc_large(bytes, NEAR__CALLER, &zero);
	else
		p = near__alloc(bytes, NEAR__CALLER);
	if (p && !zero)
		memset(p, 0, bytes);
	return p;
}

size_t near__usable_size(const void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned kind, class;

	if (near__heap.hooks == NEAR__CHECKED)
		return near__check_size(p);
	if (!near__pages_contain(offset))
		near__heap_die("use of a pointer that is not from here", p);
	kind = near__heap.kind[offset >> NEAR__GRANULE_SHIFT];
	if (kind == NEAR__LARGE)
		return near__large_size(p);
	if (kind == NEAR__SAMPLED)
		return near__profile_size(p);
	if (!near__class_of_kind(kind))
		near__heap_die("use of a pointer that is not allocated", p);
	if (!near__begins(kind, offset, &class))
		near__heap_die("use of a pointer into a block", p);
	return near__sizes[class].size;
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
	had = near__usable_size(p);
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
	return p ? near__usable_size(p) : 0;
}
