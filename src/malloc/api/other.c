/* SPDX-License-Identifier: MIT */
/* Blocks of other allocators, see other.h. Not in the file of malloc and free: a compiler would
 * take the public names for the functions there. */
#define _GNU_SOURCE
#include "malloc/api/other.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "malloc/api/fast.h"
#include "malloc/base/out.h"

/* Not in static programs. */
#pragma weak dladdr
#pragma weak dlsym

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

bool near__same_object(const void *a, const void *b)
{
	Dl_info x, y;

	return dladdr && dladdr(a, &x) && dladdr(b, &y) && x.dli_fbase == y.dli_fbase;
}

/* ---- the next allocator ---- */

/* The C library's malloc is always there. While it has no memory, a block is not from it: the error
 * is reported here, and the C library does not crash. */
static bool has_memory(const void *function)
{
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
	struct mallinfo2 (*info)(void), m;

	*(void **)&info = dlsym(RTLD_NEXT, "mallinfo2");
#else
	struct mallinfo (*info)(void), m;

	*(void **)&info = dlsym(RTLD_NEXT, "mallinfo");
#endif
	if (info && near__same_object(function, (const void *)info)) {
		m = info();
		return m.arena || m.hblkhd;
	}
	return function != NULL;
#else
	/* musl's free crashes with a block that is not its own, and it has none. */
	return function && !near__same_object(function, (const void *)getpid);
#endif
}

/* A function of it; NULL: it has no block. Relaxed: the function existed before. */
static void *next(void **found, const char *name)
{
	void *f = __atomic_load_n(found, __ATOMIC_RELAXED);

	if (f || !dlsym)
		return f;
	f = dlsym(RTLD_NEXT, name);
	if (!has_memory(f))
		return NULL;
	__atomic_store_n(found, f, __ATOMIC_RELAXED);
	return f;
}

bool near__free_other(void *p)
{
	static void *found;
	void (*other)(void *);

	*(void **)&other = next(&found, "free");
	if (other)
		other(p);
	return other != NULL;
}

bool near__resize_other(void **p, size_t n)
{
	static void *found;
	void *(*other)(void *, size_t);

	*(void **)&other = next(&found, "realloc");
	if (other)
		*p = other(*p, n);
	return other != NULL;
}

/* ---- sizes ---- */

/* A wrapper of malloc that stores something in front of its blocks returns addresses that are not
 * the beginning of ours. */
static bool is_within_block(const void *p)
{
	uint64_t offset = near__offset_of(p);
	unsigned class, tag = near__heap.page_map[offset >> NEAR__PAGE_SHIFT];

	return near__class_of_tag(tag) && !near__begins(tag, offset, &class) &&
	       near__heap.hooks != NEAR__CHECKED && near__malloc_is_replaced();
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

static size_t size_of_other(void *p)
{
	static void *found;
	size_t (*other)(void *);

	*(void **)&other = next(&found, "malloc_usable_size");
	return other ? other(p) : size_unknown(p);
}

NEAR__ENTRY size_t malloc_usable_size(void *p)
{
	if (!p)
		return 0;
	if (!near__pages_contain(near__offset_of(p)))
		return size_of_other(p);
	return is_within_block(p) ? size_unknown(p) : near__hooked_size(p);
}
