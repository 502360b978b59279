/* SPDX-License-Identifier: MIT */
/* Notifies the tool that checks the order of the program's threads: helgrind or DRD by client
 * requests, each of which ignores those of the other (none without valgrind's headers at build
 * time); ThreadSanitizer by its functions, if the program is built with it and this library is not:
 * the sanitizer then sees no instruction of this library. */
#include "base/valgrind.h"

#include <stdbool.h>

#include "base/tsan.h"

#if defined(__has_include)
#if __has_include(<valgrind/helgrind.h>) && __has_include(<valgrind/drd.h>)
#include <valgrind/drd.h>
#include <valgrind/helgrind.h>
#ifndef NVALGRIND /* the headers define this for CPUs that valgrind does not support */
#define NEAR__HAS_VALGRIND 1
#endif
#endif
#endif

#ifdef NEAR__HAS_VALGRIND
#define REQUEST(code, object, size) VALGRIND_DO_CLIENT_REQUEST_STMT(code, object, size, 0, 0, 0)
#else
#define REQUEST(code, object, size) ((void)(object), (void)(size))
#endif

uint32_t near__is_watched;

void near__watched_acquire(const void *object)
{
	if (NEAR__TSAN_HERE)
		__tsan_acquire((void *)(uintptr_t)object);
	REQUEST(_VG_USERREQ__HG_USERSO_RECV_POST, object, 0);
	REQUEST(VG_USERREQ__DRD_ANNOTATE_HAPPENS_AFTER, object, 0);
}

/* All tools keep what earlier releases of the object recorded. */
void near__watched_release(const void *object)
{
	if (NEAR__TSAN_HERE)
		__tsan_release((void *)(uintptr_t)object);
	REQUEST(_VG_USERREQ__HG_USERSO_SEND_PRE, object, 0);
	REQUEST(VG_USERREQ__DRD_ANNOTATE_HAPPENS_BEFORE, object, 0);
}

void near__valgrind_ignore_range(const void *p, size_t size)
{
	REQUEST(_VG_USERREQ__HG_ARANGE_MAKE_UNTRACKED, p, size);
	REQUEST(VG_USERREQ__DRD_START_SUPPRESSION, p, size);
}

void near__watched_word(const void *word)
{
	near__valgrind_ignore_range(word, sizeof(void *));
}

#ifdef NEAR__HAS_VALGRIND
/* False under memcheck, which does not track the order of threads. A tool that does not know the
 * request returns 0 or the first argument; helgrind returns the number of bytes. */
static bool is_watched_by_valgrind(void)
{
	unsigned char state, byte = 0;

	if (!RUNNING_ON_VALGRIND)
		return false;
	return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, VG_USERREQ__DRD_GET_DRD_THREAD_ID, 0, 0, 0, 0,
					       0) ||
	       VALGRIND_DO_CLIENT_REQUEST_EXPR(0, _VG_USERREQ__HG_GET_ABITS, &byte, &state, 1, 0,
					       0) == 1;
}
#else
static bool is_watched_by_valgrind(void)
{
	return false;
}
#endif

/* Early: the library reports nothing of what a thread does before this. */
__attribute__((constructor(101))) static void detect_tool(void)
{
	if (near__is_watched || !((!NEAR__TSAN && NEAR__TSAN_HERE) || is_watched_by_valgrind()))
		return;
	near__is_watched = 1;
	near__valgrind_ignore_range(&near__is_watched, sizeof(near__is_watched));
}
