/* SPDX-License-Identifier: MIT */
/* dlopen without RTLD_DEEPBIND, in the shared library. The symbols of an object that is loaded with
 * that flag are resolved in its own dependencies first. These include the C library, which would
 * provide malloc and free; the first block that the object exchanges with the rest of the program
 * is then freed by the wrong allocator. PHP loads its extensions with the flag. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#ifdef RTLD_DEEPBIND /* glibc alone has it */

/* The C library uses the RUNPATH and the namespace of dlopen's caller, which it finds by the return
 * address. This function therefore jumps to the real one, which returns to our caller. */
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

/* Called late: dlsym may allocate, and constructors may call dlopen before ours have run. */
static __attribute__((noinline)) open_function *dlopen_find(open_function **real)
{
	open_function *found;

	*(void **)&found = dlsym(RTLD_NEXT, "dlopen");
	__atomic_store_n(real, found, __ATOMIC_RELAXED);
	return found;
}

CALLS_LAST __attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
	static open_function *found; /* relaxed: the function existed before this library */
	open_function *real = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (!real)
		real = dlopen_find(&found);
	if (!real) /* dlerror() returns the reason */
		return NULL;
	TAIL_CALL return real(file, mode & ~RTLD_DEEPBIND);
}

#endif
