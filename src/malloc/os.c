/* SPDX-License-Identifier: MIT */
/* Address space: reserved without access, which no system charges, and made writable from the start
 * on as far as it is used. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "heap.h"

#define PAGE ((size_t)4096)

bool near__range_reserve(struct near__range *r, size_t size)
{
	int saved = errno;
	void *map = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	errno = saved;
	if (map == MAP_FAILED)
		return false;
	*r = (struct near__range){map, size, 0};
	return true;
}

/* Who asks for the kind of a pointer that no block has finds none. */
bool near__range_show(const struct near__range *r)
{
	int saved = errno, failed = mprotect(r->base, r->size, PROT_READ);

	errno = saved;
	return !failed;
}

void near__range_release(struct near__range *r)
{
	if (r->base)
		munmap(r->base, r->size);
	r->base = NULL;
}

/* In steps that grow with the range: an eighth of what is there, 256 KiB to 16 MiB. */
static size_t next_step(const struct near__range *r, size_t size)
{
	size_t step = r->committed / 8, want;

	step = step < ((size_t)256 << 10) ? (size_t)256 << 10 : step;
	step = step > ((size_t)16 << 20) ? (size_t)16 << 20 : step;
	want = r->committed + step > size ? r->committed + step : size;
	want = (want + PAGE - 1) & ~(PAGE - 1);
	return want < r->size ? want : r->size;
}

static bool commit_to(struct near__range *r, size_t end)
{
	int saved = errno, failed;

	failed = mprotect(r->base + r->committed, end - r->committed, PROT_READ | PROT_WRITE);
	errno = saved;
	if (!failed)
		r->committed = end;
	return !failed;
}

bool near__range_commit(struct near__range *r, size_t size)
{
	if (size <= r->committed)
		return true;
	if (size > r->size)
		return false;
	return commit_to(r, next_step(r, size)) || commit_to(r, (size + PAGE - 1) & ~(PAGE - 1));
}

void near__os_discard(void *p, size_t size)
{
	int saved = errno;

	madvise(p, size, MADV_DONTNEED);
	errno = saved;
}

uint64_t near__os_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
