/* SPDX-License-Identifier: MIT */
/* The client requests to valgrind, see watched.h. Each tool ignores those of the other. Without
 * valgrind's headers at build time there are none. */
#include "watched.h"

#if defined(__has_include)
#if __has_include(<valgrind/helgrind.h>) && __has_include(<valgrind/drd.h>)
#include <valgrind/drd.h>
#include <valgrind/helgrind.h>
#ifndef NVALGRIND /* they define this for CPUs that they do not know */
#define NEAR__CAN_TELL 1
#endif
#endif
#endif

uint32_t near__is_watched;

#ifdef NEAR__CAN_TELL
static void tell(unsigned request, const void *object, size_t size)
{
	VALGRIND_DO_CLIENT_REQUEST_STMT(request, object, size, 0, 0, 0);
}

void near__watched_acquire(const void *object)
{
	tell(_VG_USERREQ__HG_USERSO_RECV_POST, object, 0);
	tell(VG_USERREQ__DRD_ANNOTATE_HAPPENS_AFTER, object, 0);
}

/* Both join what was released before. */
void near__watched_release(const void *object)
{
	tell(_VG_USERREQ__HG_USERSO_SEND_PRE, object, 0);
	tell(VG_USERREQ__DRD_ANNOTATE_HAPPENS_BEFORE, object, 0);
}

void near__watched_ignore(const void *p, size_t size)
{
	tell(_VG_USERREQ__HG_ARANGE_MAKE_UNTRACKED, p, size);
	tell(VG_USERREQ__DRD_START_SUPPRESSION, p, size);
}

/* Not by memcheck, which the order of threads does not concern. Of a tool that does not know the
 * request the result is 0, or the first argument; helgrind's is the number of bytes. */
static bool is_watched(void)
{
	unsigned char state, byte = 0;

	return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, VG_USERREQ__DRD_GET_DRD_THREAD_ID, 0, 0, 0, 0,
					       0) ||
	       VALGRIND_DO_CLIENT_REQUEST_EXPR(0, _VG_USERREQ__HG_GET_ABITS, &byte, &state, 1, 0,
					       0) == 1;
}

void near__watch_begin(void)
{
	if (near__is_watched || !RUNNING_ON_VALGRIND || !is_watched())
		return;
	near__is_watched = 1;
	near__watched_ignore(&near__is_watched, sizeof(near__is_watched));
}
#else
void near__watched_acquire(const void *object)
{
	(void)object;
}

void near__watched_release(const void *object)
{
	(void)object;
}

void near__watched_ignore(const void *p, size_t size)
{
	(void)p;
	(void)size;
}

void near__watch_begin(void)
{
}
#endif

/* Early: what a thread does before is not reported. */
__attribute__((constructor(101))) static void begin(void)
{
	near__watch_begin();
}
