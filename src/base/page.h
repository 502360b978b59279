/* SPDX-License-Identifier: MIT */
/* page: the system's, in which mmap(2), mprotect(2) and madvise(2) count: 4 KiB, on arm64 16 or 64
 * as well. A constant must not depend on it that is part of a file's format: machines with other
 * pages read the file. The code relies on pages of at most 64 KiB where it says so. */
#ifndef NEARCPU_BASE_PAGE_H
#define NEARCPU_BASE_PAGE_H

#include <stddef.h>
#include <unistd.h>

static inline size_t near__page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

#endif
