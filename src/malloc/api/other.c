/* SPDX-License-Identifier: MIT */
/* Whether the program has a malloc of its own, see other.h; and the size of a block, which depends
 * on that. Not in the file of malloc and free: a compiler would take the public names for the
 * functions there. */
#define _GNU_SOURCE
#include "malloc/api/other.h"

#include <malloc.h>
#include <stdlib.h>

#include "malloc/api/fast.h"
#include "malloc/base/out.h"

/* The functions of entry.c and aligned.c. Weak: a compiler takes it for granted that two functions
 * have two addresses, unless one of them may be missing. */
#define OWN __attribute__((weak, visibility("hidden")))
extern __typeof__(malloc) near__own_malloc OWN;
extern __typeof__(realloc) near__own_realloc OWN;
extern __typeof__(free) near__own_free OWN;
extern __typeof__(aligned_alloc) near__own_aligned_alloc OWN;

bool near__malloc_is_replaced(void)
{
	return malloc != near__own_malloc || realloc != near__own_realloc || free != near__own_free;
}

bool near__aligned_alloc_is_replaced(void)
{
	return aligned_alloc != near__own_aligned_alloc;
}

/* A wrapper of malloc that stores something in front of its blocks returns addresses that are not
 * the beginning of ours. */
static bool is_within_block(struct near__place at)
{
	return near__class_of_tag(at.tag) && !at.class && near__heap.hooks != NEAR__CHECKED &&
	       near__malloc_is_replaced();
}

static size_t size_unknown(const void *p)
{
	static uint32_t warned;
	struct near__out line;

	if (__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED)) /* it orders nothing */
		return 0;
	near__out_begin_fd(&line, 2);
	near__out_print(&line,
			"nearcpu-malloc: malloc_usable_size returns 0 for a pointer that is "
			"not from here: %#lx\n",
			(uintptr_t)p);
	near__out_end(&line); /* there is no other place to report its error */
	return 0;
}

static __attribute__((noinline)) size_t size_slow(void *p)
{
	struct near__place at;
	size_t size;

	if (!p)
		return 0;
	at = near__place_of(p);
	if (at.tag == NEAR__OUTSIDE)
		return near__size_of_other(p, &size) ? size : size_unknown(p);
	return is_within_block(at) ? size_unknown(p) : near__hooked_size(at);
}

NEAR__ENTRY size_t malloc_usable_size(void *p)
{
	size_t size = near__size_fast(p);

	return NEAR__LIKELY(size) ? size : size_slow(p);
}
