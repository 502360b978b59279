/* SPDX-License-Identifier: MIT */
/* Memory for tables that few programs need, and what the kernel did with pages. By
 * system calls: madvise and mprotect of the process are this library's own (api/marks.c). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ground/page.h"
#include "ground/topology.h"
#include "kernel/internal.h"
#include "malloc/base/os.h"

void *near__os_map(size_t size)
{
	int saved = errno;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	return p == MAP_FAILED ? NULL : p;
}

void near__os_release(void *p, size_t size)
{
	int saved = errno;

	munmap(p, size);
	errno = saved;
}

bool near__os_is_resident(const void *p)
{
	unsigned char there = 0;
	int saved = errno;
	uintptr_t page = (uintptr_t)p & ~(near__page_size() - 1);
	long failed = syscall(SYS_mincore, page, near__page_size(), &there);

	errno = saved;
	return !failed && there & 1;
}

void near__os_no_huge_pages(void *p, size_t size)
{
	int saved = errno;

	syscall(SYS_madvise, p, size, MADV_NOHUGEPAGE);
	errno = saved;
}

/* Unknown counts as no: then there is nothing to do. */
bool near__os_huge_pages_come(void)
{
	static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
	static int known; /* 1: no, 2: yes. Relaxed: threads find the same */
	int answer = __atomic_load_n(&known, __ATOMIC_RELAXED), saved = errno, fd;
	char text[64] = "";

	if (answer || near__process.conf.few_calls)
		return answer == 2;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && syscall(SYS_read, fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		syscall(SYS_close, fd);
	errno = saved;
	answer = strstr(text, "[always]") ? 2 : 1;
	__atomic_store_n(&known, answer, __ATOMIC_RELAXED);
	return answer == 2;
}
