/* SPDX-License-Identifier: MIT */
/* How many CPUs and nodes this machine can ever have, and memory of a node. */
#ifndef NEARCPU_TOPOLOGY_H
#define NEARCPU_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

/* The highest number in a kernel list such as "0-3,8\n", or -1 if it is not one. */
int near__list_max(const char *text);

/* The highest possible CPU number plus one. */
unsigned near__topology_cpus(void);

/* The highest possible node number plus one; 1 where the kernel does not export it. */
unsigned near__topology_nodes(void);

/* Which of the nodes below `nodes` a CPU belongs to, -1 if the kernel does not export it: no sysfs,
 * no such CPU, or it is offline. Not for fast paths: a system call for each node up to that one. */
int near__topology_node_of(unsigned cpu, unsigned nodes);

/* Whether the begin of a file, 2 KiB, has this text. */
bool near__file_has(const char *path, const char *wanted);

/* Whether a filter of system calls was in force at the first call of this function, or may have
 * been: that a call exists does not mean then that the process survives it. */
bool near__calls_are_filtered(void);

/* Requests that the pages from `start` on, which were not accessed yet, come from `node`, if it has
 * free ones. Nothing where calls are filtered. */
void near__topology_prefer(void *start, size_t size, unsigned node);

#endif
