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

/* Advice about the content of pages is gone when it was followed. That about huge pages stays, and
 * does no harm to the next block: numpy gives it for each large array, whose pages would else be
 * new, and faults, each time. So does what takes other advice back. The rest is about the mapping:
 * also what a kernel adds later. */
static bool is_harmless(int advice)
{
	static const unsigned char harmless[] = {
		MADV_NORMAL,
		MADV_WILLNEED,
		MADV_DONTNEED,
		MADV_FREE,
		MADV_DOFORK,
		MADV_HUGEPAGE,
		MADV_NOHUGEPAGE,
		MADV_DODUMP,
		19 /* KEEPONFORK */,
		20 /* COLD */,
		21 /* PAGEOUT */,
		22 /* POPULATE_READ */,
		23 /* POPULATE_WRITE */,
		24 /* DONTNEED_LOCKED */,
		25 /* COLLAPSE */,
	};

	for (size_t i = 0; i < sizeof(harmless); i++)
		if (advice == harmless[i])
			return true;
	return false;
}

NEAR__ENTRY int madvise(void *p, size_t size, int advice)
{
	if (!is_harmless(advice))
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
