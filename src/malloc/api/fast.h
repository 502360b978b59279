/* SPDX-License-Identifier: MIT */
/* fast: the paths that nearly every call takes, which the entry points inline. */
#ifndef NEARCPU_MALLOC_FAST_H
#define NEARCPU_MALLOC_FAST_H

#include <string.h>

#include "malloc/cache/malloc_cache.h"
#include "malloc/diagnostics/hooks.h"
#include "malloc/pages/pages.h"

/* An entry point: a symbol of the drop-in, hence visible. */
#define NEAR__ENTRY __attribute__((visibility("default")))
/* A second name of an entry point, in the same file. gcc compares the two's attributes. */
#if defined(__has_attribute)
#if __has_attribute(copy)
#define NEAR__LIKE(name) , copy(name)
#endif
#endif
#ifndef NEAR__LIKE
#define NEAR__LIKE(name)
#endif
#define NEAR__ALIAS(name, second, ...)                                                             \
	extern __typeof__(name) second __attribute__((alias(#name), __VA_ARGS__ NEAR__LIKE(name)))

/* The address that the call of the entry point returns to; also in a function that the entry point
 * calls last. */
#define NEAR__CALLER __builtin_return_address(0)

/* malloc_init.c: false: no memory, or the initialisation itself is calling. */
bool near__heap_begin(void);

static inline bool near__heap_ready(void)
{
	return NEAR__LIKELY(near__heap_has_begun()) || near__heap_begin();
}

/* replaces.c: this library takes the place of the C library's malloc. */
extern const char near__replaces_malloc __attribute__((visibility("hidden")));

/* slow.c. They set errno. */
void *near__alloc_slow(size_t n, const void *caller);
void near__free_slow(void *p);
void *near__alloc_aligned(size_t align, size_t n, const void *caller);
void *near__resize(void *p, size_t n, const void *caller);

/* False: take the slow path. `limit` is a word of near__heap. */
static inline bool near__alloc_below(size_t limit, size_t n, void **p)
{
	return NEAR__LIKELY(n < limit) && NEAR__LIKELY(near__pop_by_cid(near__entry_for(n), p));
}

static inline bool near__alloc_fast(size_t n, void **p)
{
	return near__alloc_below(near__heap.cid_limit, n, p);
}

static inline void *near__alloc(size_t n, const void *caller)
{
	void *p;

	return near__alloc_fast(n, &p) ? p : near__alloc_slow(n, caller);
}

static inline bool near__free_below(size_t size, void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned class;

	return near__begins_below(size, offset, &class) &&
	       NEAR__LIKELY(near__push_by_cid(near__entry_of(class), p, offset));
}

/* The size of a small block, or 0: ask the slow path. */
static inline size_t near__size_fast(const void *p)
{
	unsigned class;

	return near__begins_below(near__heap.known_size, near__offset_of(p), &class)
		       ? near__sizes[class].size
		       : 0;
}

static inline bool near__free_fast(void *p)
{
	return near__free_below(near__heap.cid_size, p);
}

static inline void near__free(void *p)
{
	if (!near__free_fast(p))
		near__free_slow(p);
}

static inline void *near__alloc_zeroed(size_t n, size_t size, const void *caller)
{
	size_t bytes;
	bool zero = false;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes))
		return near__no_memory();
	if (bytes > NEAR__SMALL_MAX && near__heap_ready()) {
		zero = true;
		p = near__hooked_alloc(1, bytes, caller, &zero);
	} else {
		p = near__alloc(bytes, caller);
	}
	if (p && !zero)
		memset(p, 0, bytes);
	return p;
}

/* malloc_fork.c: registers the fork handlers, once. */
void near__fork_watch(void);

#endif
