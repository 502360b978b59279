/* SPDX-License-Identifier: MIT */
/* A system whose pages have pages_size bytes, no fewer than this one's, for what is linked with
 * --wrap of these calls: addresses are multiples of it or refused, sizes are rounded up to it. A
 * program that allocates before main defines PAGES_SIZE. */
#ifndef NEARCPU_TESTS_PAGES_H
#define NEARCPU_TESTS_PAGES_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wide_names.h"

#ifndef PAGES_SIZE
#define PAGES_SIZE 0
#endif
static size_t pages_size = PAGES_SIZE;

long __real_sysconf(int name);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
	WIDE_NAME("__real_mmap64");
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
	WIDE_NAME("__wrap_mmap64");
int __real_munmap(void *at, size_t size);
int __real_mprotect(void *at, size_t size, int protection);
int __real_madvise(void *at, size_t size, int advice);

static inline size_t pages_round(size_t n)
{
	return (n + pages_size - 1) & ~(pages_size - 1);
}

static inline bool pages_refuse(uint64_t at)
{
	if (!pages_size)
		pages_size = (size_t)__real_sysconf(_SC_PAGESIZE);
	errno = at % pages_size ? EINVAL : errno;
	return at % pages_size;
}

long __wrap_sysconf(int name)
{
	return name == _SC_PAGESIZE && pages_size ? (long)pages_size : __real_sysconf(name);
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	char *all, *p;

	if (pages_refuse((uintptr_t)at) || pages_refuse((uint64_t)offset))
		return MAP_FAILED;
	size = pages_round(size);
	if (at)
		return __real_mmap(at, size, protection, flags, fd, offset);
	all = __real_mmap(NULL, size + pages_size, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return MAP_FAILED;
	p = (char *)pages_round((uintptr_t)all);
	if (p > all)
		__real_munmap(all, (size_t)(p - all));
	__real_munmap(p + size, (size_t)(all + pages_size - p));
	return __real_mmap(p, size, protection, flags | MAP_FIXED, fd, offset);
}

int __wrap_munmap(void *at, size_t size)
{
	return pages_refuse((uintptr_t)at) ? -1 : __real_munmap(at, pages_round(size));
}

int __wrap_mprotect(void *at, size_t size, int protection)
{
	return pages_refuse((uintptr_t)at) ? -1
					   : __real_mprotect(at, pages_round(size), protection);
}

int __wrap_madvise(void *at, size_t size, int advice)
{
	return pages_refuse((uintptr_t)at) ? -1 : __real_madvise(at, pages_round(size), advice);
}

#if PAGES_SIZE
long __real_syscall(long number, ...);

/* madvise and mprotect of the malloc. */
long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_madvise || number == SYS_mprotect || number == SYS_mincore) {
		if (pages_refuse((uint64_t)a[0]))
			return -1;
		a[1] = (long)(number == SYS_mincore ? (size_t)a[1] : pages_round((size_t)a[1]));
	}
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void *__real_mremap(void *from, size_t size, size_t new_size, int flags, ...);

/* With MREMAP_FIXED, as all callers. */
void *__wrap_mremap(void *from, size_t size, size_t new_size, int flags, void *to)
{
	if (pages_refuse((uintptr_t)from) || pages_refuse((uintptr_t)to))
		return MAP_FAILED;
	return __real_mremap(from, pages_round(size), pages_round(new_size), flags, to);
}
#endif

#endif
