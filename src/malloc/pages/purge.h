/* SPDX-License-Identifier: MIT */
/* purge: what the files that return pages to the system share. */
#ifndef NEARCPU_MALLOC_PURGE_H
#define NEARCPU_MALLOC_PURGE_H

#include "malloc/base/heap.h"

/* purge.c: held while pages are in no run, and the system takes them. It excludes forks: a child
 * would never get these pages back. Taken before the lock of a node. */
extern struct near_lock near__purging __attribute__((visibility("hidden")));

#endif
