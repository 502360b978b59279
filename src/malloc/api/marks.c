/* SPDX-License-Identifier: MIT */
/* madvise, mprotect, mlock: the calls that leave marks on pages (pages/marks.h). They record the
 * range, and are the system call otherwise. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "malloc/api/fast.h"
#include "malloc/pages/marks.h"

/* Advice about the content of pages is gone when it was followed; the rest is about the mapping,
 * and stays. Advice that a kernel adds later counts as such. */
static bool is_about_content(int advice)
{
	static const unsigned char of_content[] = {
		MADV_NORMAL,
		MADV_WILLNEED,
		MADV_DONTNEED,
		MADV_FREE,
		20 /* COLD */,
		21 /* PAGEOUT */,
		22 /* POPULATE_READ */,
		23 /* POPULATE_WRITE */,
		24 /* DONTNEED_LOCKED */,
		25 /* COLLAPSE */,
	};

	for (size_t i = 0; i < sizeof(of_content); i++)
		if (advice == of_content[i])
			return true;
	return false;
}

NEAR__ENTRY int madvise(void *p, size_t size, int advice)
{
	if (!is_about_content(advice))
		near__marks_set(p, size);
	return (int)syscall(SYS_madvise, p, size, advice);
}

NEAR__ENTRY int mprotect(void *p, size_t size, int protection)
{
	near__marks_set(p, size);
	return (int)syscall(SYS_mprotect, p, size, protection);
}

NEAR__ENTRY int pkey_mprotect(void *p, size_t size, int protection, int key)
{
	near__marks_set(p, size);
#ifdef SYS_pkey_mprotect
	if (key != -1)
		return (int)syscall(SYS_pkey_mprotect, p, size, protection, key);
#endif
	return (int)syscall(SYS_mprotect, p, size, protection);
}

NEAR__ENTRY int mlock(const void *p, size_t size)
{
	near__marks_set(p, size);
	return (int)syscall(SYS_mlock, p, size);
}

NEAR__ENTRY int mlock2(const void *p, size_t size, unsigned flags)
{
	near__marks_set(p, size);
	if (!flags)
		return (int)syscall(SYS_mlock, p, size);
#ifdef SYS_mlock2
	return (int)syscall(SYS_mlock2, p, size, flags);
#else
	errno = EINVAL;
	return -1;
#endif
}
