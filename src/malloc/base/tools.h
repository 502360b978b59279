/* SPDX-License-Identifier: MIT */
/* tools: notifies valgrind and AddressSanitizer of blocks. malloc_check.c lays out their memory;
 * its guard of a block is in memory that the program may not access, and that stays accessible
 * here. */
#ifndef NEARCPU_MALLOC_TOOLS_H
#define NEARCPU_MALLOC_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* NEAR__ASAN: the program has AddressSanitizer. The code of src/malloc is never instrumented: it is
 * called while the sanitizer initialises. */
#ifndef NEAR__ASAN
#define NEAR__ASAN 0
#endif

#if NEAR__ASAN
#include <sanitizer/asan_interface.h>
#include <sys/syscall.h>
#include <unistd.h>

void __asan_get_shadow_mapping(size_t *scale, size_t *offset);
#elif defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#ifndef NVALGRIND /* it defines this for CPUs that it does not know */
#define NEAR__VALGRIND 1
#endif
#endif
#endif
#ifndef NEAR__VALGRIND
#define NEAR__VALGRIND 0
#endif

/* AddressSanitizer checks the memory that clock_gettime writes to. The stack of a thread that
 * begins still has the marks of an earlier thread, hence the system call. */
static inline void near__tool_clock(clockid_t clock, struct timespec *t)
{
#if NEAR__ASAN
	syscall(SYS_clock_gettime, clock, t);
#else
	clock_gettime(clock, t);
#endif
}

/* Whether a tool is there to be notified. */
static inline bool near__tool_present(void)
{
#if NEAR__VALGRIND
	return RUNNING_ON_VALGRIND != 0;
#else
	return NEAR__ASAN;
#endif
}

/* Whether instrumented code can run: AddressSanitizer's shadow is mapped. */
static inline bool near__tool_ready(void)
{
#if NEAR__ASAN
	static char known;
	size_t scale, offset, page;

	if (!known) {
		__asan_get_shadow_mapping(&scale, &offset);
		page = (((size_t)&known >> scale) + offset) & ~(size_t)4095;
		known = syscall(SYS_msync, page, 1, 1 /* MS_ASYNC: nothing is done */) == 0;
	}
	return known;
#else
	return true;
#endif
}

/* [p, p + n) is a block now. `before` bytes in front of it and `behind` bytes after it are not for
 * the program. */
static inline void near__tool_alloc(char *p, size_t n, size_t before, size_t behind, bool zero)
{
#if NEAR__ASAN
	(void)zero;
	__asan_poison_memory_region(p - before, before);
	__asan_unpoison_memory_region(p, n);
	__asan_poison_memory_region(p + n, behind);
#elif NEAR__VALGRIND
	(void)VALGRIND_MAKE_MEM_NOACCESS(p - before, before);
	(void)VALGRIND_MAKE_MEM_NOACCESS(p + n, behind);
	VALGRIND_MALLOCLIKE_BLOCK(p, n, before, zero);
#else
	(void)p, (void)n, (void)before, (void)behind, (void)zero;
#endif
}

static inline void near__tool_free(char *p, size_t n, size_t redzone)
{
#if NEAR__ASAN
	(void)redzone;
	__asan_poison_memory_region(p, n);
#elif NEAR__VALGRIND
	VALGRIND_FREELIKE_BLOCK(p, redzone);
	(void)n;
#else
	(void)p, (void)n, (void)redzone;
#endif
}

/* Makes these bytes accessible, for the allocator. */
static inline void near__tool_forget(void *p, size_t n)
{
#if NEAR__ASAN
	__asan_unpoison_memory_region(p, n);
#elif NEAR__VALGRIND
	(void)VALGRIND_MAKE_MEM_DEFINED(p, n);
#else
	(void)p, (void)n;
#endif
}

#endif
