/* SPDX-License-Identifier: MIT */
/* The slow paths behind the entry points of both libraries: entry.c, which takes the place of the C
 * library's malloc, and own.c. */
#include <string.h>

#include "malloc/api/fast.h"
#include "malloc/api/other.h"
#include "malloc/cache/background.h"
#include "malloc/cache/thread_cache.h"
#include "malloc/diagnostics/hooks.h"

/* In libnearcpu-malloc alone. */
#pragma weak near__free_other
#pragma weak near__resize_other

/* Not inlined: what a thread takes from its own lists, or from those of a slot that is not indexed
 * by the cid, then needs no stack frame. */
static __attribute__((noinline)) void *alloc_slower(size_t n, const void *caller)
{
	bool zero = false;

	return near__heap_ready() ? near__hooked_alloc(1, n, caller, &zero) : near__no_memory();
}

__attribute__((noinline)) void *near__alloc_slow(size_t n, const void *caller)
{
	void *p;

	if (n < near__heap.slot_limit && near__pop_by_slot(near__entry_of(near__class_of(n)), &p))
		return p;
	if (n < near__heap.local_limit && (p = near__thread_cache_take(near__class_of(n))))
		return p;
	return alloc_slower(n, caller);
}

/* What follows does not decode the pointer again: the place has all that it needs. */
static __attribute__((noinline)) void free_slower(uint64_t offset, const void *caller)
{
	struct near__place at = near__place_at(offset);

	if (NEAR__UNLIKELY(at.tag == NEAR__OUTSIDE) && near__free_other &&
	    near__free_other(near__list_block(offset)))
		return;
	switch (near__heap.hooks) {
	case NEAR__CHECKED:
		near__check_free(at, NEAR__ANY_SIZE, NEAR__BY_MALLOC, caller);
		return;
	case NEAR__PROFILED:
		near__profile_forget(&at);
		break;
	case NEAR__PERTURBED:
		near__perturb_freed(at);
		break;
	case NEAR__ORDERED:
		near__ordered_release();
		break;
	default:
		break;
	}
	near__plain_free(at);
}

__attribute__((noinline)) void near__free_slow(void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned class;

	if (near__begins_below(near__heap.slot_size, offset, &class) &&
	    near__push_by_slot(near__entry_of(class), offset))
		return;
	if (!p || (near__begins_below(near__heap.local_size, offset, &class) &&
		   near__thread_cache_put(class, offset)))
		return;
	free_slower(offset, NEAR__CALLER);
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

static void *block_move(void *p, size_t had, size_t n, const void *caller)
{
	void *q = near__alloc(n, caller);

	if (!q)
		return NULL;
	memcpy(q, p, had < n ? had : n);
	near__free(p);
	return q;
}

static __attribute__((noinline)) void *resize_slow(void *p, size_t n, const void *caller)
{
	struct near__place at;
	size_t had;
	void *q;

	if (!p)
		return near__alloc(n, caller);
	if (n == 0) {
		near__free(p);
		return NULL;
	}
	at = near__place_of(p);
	if (NEAR__UNLIKELY(at.tag == NEAR__OUTSIDE) && near__resize_other &&
	    near__resize_other(&p, n))
		return p;
	switch (near__heap.hooks) {
	case NEAR__CHECKED:
		return near__check_realloc(at, n, caller);
	case NEAR__PROFILED:
		return near__profile_realloc(at, n, caller);
	case NEAR__ORDERED:
		return near__ordered_realloc(at, n);
	default:
		had = near__plain_size(at);
	}
	if (had > NEAR__SMALL_MAX && n > NEAR__SMALL_MAX) {
		q = near__large_resize(p, n);
		near__step();
		return q ? q : near__no_memory();
	}
	return n <= had && n > had / 2 ? near__plain_cut(p, had, n) : block_move(p, had, n, caller);
}

/* A small block that may stay needs no stack frame. */
void *near__resize(void *p, size_t n, const void *caller)
{
	size_t had = near__size_fast(p);

	return NEAR__LIKELY(n <= had && n > had / 2) ? p : resize_slow(p, n, caller);
}
