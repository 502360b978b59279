/* SPDX-License-Identifier: MIT */
/* watched: requests to helgrind and DRD, if valgrind runs the program. */
#ifndef NEARCPU_WATCHED_H
#define NEARCPU_WATCHED_H

#include <nearcpu/lock.h>
#include <stddef.h>

/* Before the library first decides anything; again is harmless. */
void near__watch_begin(void);

/* Of memory that is changed by plain atomic stores, or read while others change it: no race is
 * reported there. */
void near__watched_ignore(const void *p, size_t size);

static inline void near__ignore(const void *p, size_t size)
{
	if (__builtin_expect(near__is_watched != 0, 0))
		near__watched_ignore(p, size);
}

#endif
