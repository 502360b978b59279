/* SPDX-License-Identifier: MIT */
/* dlopen without RTLD_DEEPBIND, in the shared library. An object that is loaded with that flag
 * looks its symbols up among its own dependencies first. These include the C library, so it would
 * take malloc and free from there and not from here; the first block that it exchanges with the
 * rest of the program is then freed by the wrong allocator. PHP loads its extensions so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#ifdef RTLD_DEEPBIND /* glibc alone has it */

/* The C library searches the RUNPATH and the namespace of dlopen's caller, which it finds by the
 * return address. So the real function is jumped to, and returns to our caller. */
#if defined(__has_attribute)
#if __has_attribute(musttail)
#define TAIL_CALL __attribute__((musttail))
#endif
#endif
#ifdef TAIL_CALL
#define CALLS_LAST
#else
#define TAIL_CALL
#define CALLS_LAST __attribute__((optimize("O2"))) /* a test checks that gcc does it */
#endif

typedef void *open_function(const char *file, int mode);

/* Not at the start: dlsym may allocate, and constructors may call dlopen before ours have run. */
static __attribute__((noinline)) open_function *find(open_function **real)
{
	open_function *found;

	*(void **)&found = dlsym(RTLD_NEXT, "dlopen");
	__atomic_store_n(real, found, __ATOMIC_RELAXED);
	return found;
}

CALLS_LAST __attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
	static open_function *found; /* relaxed: the functions were there before this library */
	open_function *real = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (!real)
		real = find(&found);
	if (!real) /* dlerror() has the reason */
		return NULL;
	TAIL_CALL return real(file, mode & ~RTLD_DEEPBIND);
}

#endif
