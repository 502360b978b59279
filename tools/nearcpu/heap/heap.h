/* SPDX-License-Identifier: MIT */
/* heap: what the files of nearcpu heap share. */
#ifndef NEARCPU_HEAP_HEAP_H
#define NEARCPU_HEAP_HEAP_H

#include <limits.h>

#define HEAP_PATH (PATH_MAX + NAME_MAX + 128)

/* Has a process write its profile. 0 and the file's path, which holds as long as this command runs;
 * or the exit status of a failure, after a message. */
int heap_live(int pid, char path[HEAP_PATH]);

#endif
