/* SPDX-License-Identifier: MIT */
/* The allocator that comes after this library, and its blocks, see other.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include "malloc/api/other.h"

/* Not in static programs. */
#pragma weak dladdr
#pragma weak dlsym

bool near__same_object(const void *a, const void *b)
{
	Dl_info x, y;

	return dladdr && dladdr(a, &x) && dladdr(b, &y) && x.dli_fbase == y.dli_fbase;
}

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
static void *next_function(void **found, const char *name)
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

	*(void **)&other = next_function(&found, "free");
	if (other)
		other(p);
	return other != NULL;
}

bool near__resize_other(void **p, size_t n)
{
	static void *found;
	void *(*other)(void *, size_t);

	*(void **)&other = next_function(&found, "realloc");
	if (other)
		*p = other(*p, n);
	return other != NULL;
}

bool near__size_of_other(void *p, size_t *size)
{
	static void *found;
	size_t (*other)(void *);

	*(void **)&other = next_function(&found, "malloc_usable_size");
	if (other)
		*size = other(p);
	return other != NULL;
}
