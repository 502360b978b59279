/* SPDX-License-Identifier: MIT */
/* roots: mappings of this library that can hold the only pointer to what the program allocated:
 * per-CPU memory, objects of pools, data of ids. LeakSanitizer searches the program's variables,
 * stacks and blocks for pointers, and other mappings only if they are registered. Without it these
 * functions do not exist: hence weak.
 *
 * It searches what is readable there when the program ends, also the zero pages of slots that were
 * never opened: about a millisecond for each MiB (AMD EPYC Milan). Its functions take a lock, so
 * they are called where a signal handler may not call: where memory is mapped. */
#ifndef NEARCPU_ROOTS_H
#define NEARCPU_ROOTS_H

#include <stddef.h>

void __lsan_register_root_region(const void *p, size_t size);
void __lsan_unregister_root_region(const void *p, size_t size);
#pragma weak __lsan_register_root_region
#pragma weak __lsan_unregister_root_region

static inline void near__root_begin(const void *p, size_t size)
{
	if (__lsan_register_root_region)
		__lsan_register_root_region(p, size);
}

/* Before the memory is unmapped. Only for what near__root_begin was called with. */
static inline void near__root_end(const void *p, size_t size)
{
	if (__lsan_unregister_root_region)
		__lsan_unregister_root_region(p, size);
}

#endif
