/* SPDX-License-Identifier: MIT */
/* What inline code of locks and tracepoints knows of its thread, see rseq.h. */
#include <nearcpu/rseq.h>

#include "base/unique.h"

_Static_assert(sizeof(struct near__thread_more) <= 32, "near__more");

/* A new thread has no owner's number (NEAR__NO_OWNER, mutex.h); the rest is 0. */
NEAR__UNIQUE_TLS(near__more, 32, ".8byte 16\n.zero 24\n");
