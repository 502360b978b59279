/* SPDX-License-Identifier: MIT */
/* A system whose pages have pages_size bytes, no fewer than this one's, for what is linked with
 * --wrap of these calls: addresses are multiples of it or refused, sizes are
 * rounded up to it. */
#ifndef NEARCPU_TESTS_PAGES_H
#define NEARCPU_TESTS_PAGES_H

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t pages_size;

long __real_sysconf(int name);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
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

#endif
