/* SPDX-License-Identifier: MIT */
/* live: what of a running process changes all the time. */
#ifndef NEARCPU_INFO_LIVE_H
#define NEARCPU_INFO_LIVE_H

#include "common/process.h"

/* As the process published it last. */
struct heap {
	int64_t in_use, mapped, dirty; /* bytes */
	int64_t when;                  /* seconds since 1970 */
};

/* False: it publishes nothing, or not where this process can read it. */
bool heap_read(const struct process *p, struct heap *out);

/* Of a thread's area, which the C library registers. NONE: not yet, or no more. UNKNOWN: not a
 * thread of the C library, or it ended. */
enum thread_kind { THREAD_LIVE, THREAD_FAILED, THREAD_NONE, THREAD_UNKNOWN, THREAD_KINDS };
struct threads {
	unsigned of[THREAD_KINDS];
};

/* False: it is not known where areas are. */
bool threads_read(const struct process *p, struct threads *out);

#endif
