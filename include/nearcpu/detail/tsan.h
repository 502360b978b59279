/* SPDX-License-Identifier: MIT */
/* Private: notifies tools that check the order of threads of what orders them here.
 *
 * ThreadSanitizer does not see the memory that a sequence passes from thread to thread, nor the
 * atomics of a library that was built without it; helgrind and DRD ignore the order of all atomics.
 * The library always notifies the tool that is there. So do the functions that are inline in a
 * program, of ThreadSanitizer if the program is compiled with it, and of valgrind's tools if it is
 * compiled with -DNEAR_VALGRIND=1. See near_mutex(3). */
#ifndef NEARCPU_TSAN_ANNOTATIONS_H
#define NEARCPU_TSAN_ANNOTATIONS_H

#include <nearcpu/api.h>
#include <stdint.h>

NEAR__BEGIN_DECLS

void __tsan_acquire(void *p);
void __tsan_release(void *p);

/* Not 0 if the program runs under helgrind or DRD, and the library was built with valgrind's
 * headers; or if the program was built with ThreadSanitizer, and the library was not. The functions
 * notify each of these. */
extern NEAR__DATA uint32_t near__is_watched;
NEAR_API void near__watched_acquire(const void *object);
NEAR_API void near__watched_release(const void *object);
NEAR_API void near__watched_word(const void *word);

NEAR__INLINE void near__watch_acquire(const void *p)
{
	if (__builtin_expect(near__is_watched != 0, 0))
		near__watched_acquire(p);
}

NEAR__INLINE void near__watch_release(const void *p)
{
	if (__builtin_expect(near__is_watched != 0, 0))
		near__watched_release(p);
}

/* Where ThreadSanitizer sees what orders the threads, but valgrind's tools do not. */
#if NEAR_VALGRIND
#define NEAR__WATCHED_ACQUIRE(p) near__watch_acquire((const void *)(uintptr_t)(p))
#define NEAR__WATCHED_RELEASE(p) near__watch_release((const void *)(uintptr_t)(p))
#else
#define NEAR__WATCHED_ACQUIRE(p) ((void)(p))
#define NEAR__WATCHED_RELEASE(p) ((void)(p))
#endif
/* A pointer that is accessed by atomics alone from here on. */
#define NEAR__WATCHED_WORD(p)                                                                      \
	(__builtin_expect(near__is_watched != 0, 0) ? near__watched_word(p) : (void)0)

/* Where neither does. */
#if NEAR__TSAN
#define NEAR__TSAN_ACQUIRE(p) __tsan_acquire((void *)(uintptr_t)(p))
#define NEAR__TSAN_RELEASE(p) __tsan_release((void *)(uintptr_t)(p))
#else
#define NEAR__TSAN_ACQUIRE(p) NEAR__WATCHED_ACQUIRE(p)
#define NEAR__TSAN_RELEASE(p) NEAR__WATCHED_RELEASE(p)
#endif

NEAR__END_DECLS

#endif
