/* SPDX-License-Identifier: MIT */
/* Address space, time, random numbers, by system calls. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "malloc/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/page.h"
#include "base/probe.h"
#include "base/topology.h"
#include "base/tsan.h"
#include "kernel/kernel.h"
#include "malloc/base/tools.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef GRND_NONBLOCK
#define GRND_NONBLOCK 1
#endif

#define RW (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define PLACES 4

/* The heap grows into a part of the address space in which the kernel maps nothing by itself:
 * programs are at two thirds, mappings grow from the top, brk's heap from a program's end or the
 * bottom. Nothing needs to be reserved, and RLIMIT_AS counts only the memory that is used. Programs
 * that choose addresses themselves, such as V8, may map there: the heap passes over their mappings
 * (pages/node.h, meta.c). */
static bool reserved; /* without access instead, where that part is not available */

/* The process's functions of these names are this library's own (api/mark_calls.c). */
static int sys_madvise(void *p, size_t size, int advice)
{
	return (int)syscall(SYS_madvise, p, size, advice);
}

static int sys_mprotect(void *p, size_t size, int protection)
{
	return (int)syscall(SYS_mprotect, p, size, protection);
}

static enum near__commit map_at(char *p, size_t size, int protection)
{
	int saved = errno, error;
	void *at = mmap(p, size, protection, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0);

	error = errno;
	if (at != MAP_FAILED && at != p) /* a kernel before 4.17 takes it for a hint */
		munmap(at, size);
	errno = saved;
	if (at == MAP_FAILED)
		return error == EEXIST ? NEAR__OCCUPIED : NEAR__NO_MEMORY;
	return at == p ? NEAR__USABLE : NEAR__OCCUPIED;
}

/* At a random place within `room` bytes, of which it takes at most half, so that the address stays
 * secret. ThreadSanitizer allows only addresses that the kernel chooses. */
static char *find_gap(size_t size, uint64_t from, uint64_t room)
{
	uint64_t page = near__page_size(), pages = (room - size) / page;

	if (size > room / 2 || NEAR__TSAN_HERE)
		return NULL;
	for (unsigned i = 0; i < PLACES; i++) {
		uint64_t at = from + near__os_random() % pages * page;
		char *p = (char *)(at & ~(page - 1));

		/* The last page stays mapped. That it could be mapped shows that there is room. */
		if (map_at(p + size - page, page, PROT_NONE) == NEAR__USABLE)
			return p;
	}
	return NULL;
}

/* From a quarter of the address space, whose end is near the stack, to five eighths. */
char *near__os_find_gap(size_t size)
{
	uint64_t end = (uint64_t)__builtin_frame_address(0);

	return find_gap(size, end / 4, end / 8 * 3);
}

/* Below that, and above AddressSanitizer's shadow memory, which ends behind an eighth. */
char *near__os_find_lower_gap(size_t size)
{
	uint64_t end = (uint64_t)__builtin_frame_address(0);

	return find_gap(size, end / 32 * 5, end / 32 * 3);
}

char *near__os_reserve(size_t size)
{
	int saved = errno;
	void *p = mmap(NULL, size, PROT_NONE, PRIVATE | MAP_NORESERVE, -1, 0);

	errno = saved;
	reserved = p != MAP_FAILED;
	return reserved ? p : NULL;
}

static size_t whole_pages(size_t size)
{
	return (size + near__page_size() - 1) & ~(near__page_size() - 1);
}

/* Steps grow with the range: an eighth of its size, 256 KiB to 16 MiB. */
static size_t next_step(const struct near__range *r, size_t size)
{
	size_t step = r->committed / 8, want, most = whole_pages(r->size);

	step = step < ((size_t)256 << 10) ? (size_t)256 << 10 : step;
	step = step > ((size_t)16 << 20) ? (size_t)16 << 20 : step;
	want = whole_pages(r->committed + step > size ? r->committed + step : size);
	return want < most ? want : most;
}

static enum near__commit make_usable(char *p, size_t size)
{
	int saved = errno, failed;

	if (!reserved)
		return map_at(p, size, RW);
	failed = sys_mprotect(p, size, RW);
	errno = saved;
	return failed ? NEAR__NO_MEMORY : NEAR__USABLE;
}

static enum near__commit commit_to(struct near__range *r, size_t end)
{
	char *p = r->down ? r->base - end : r->base + r->committed;
	enum near__commit result = make_usable(p, end - r->committed);

	if (result != NEAR__USABLE)
		return result;
	if (r->node >= 0)
		near__topology_prefer(p, end - r->committed, (unsigned)r->node);
	r->committed = end;
	return result;
}

/* In front of another mapping the steps become shorter: halves of what is beyond `size`. Where a
 * piece begins, one call finds out whether there is room. */
enum near__commit near__range_commit(struct near__range *r, size_t size)
{
	size_t page = near__page_size(), least = whole_pages(size), end = next_step(r, size);
	enum near__commit result;

	if (size <= r->committed)
		return NEAR__USABLE;
	if (size > r->size)
		return NEAR__NO_MEMORY;
	while ((result = commit_to(r, end)) != NEAR__USABLE && end > least) {
		if (result == NEAR__NO_MEMORY)
			end = least;
		else if (r->committed == r->piece)
			return result;
		else
			end = least + ((end - least) / 2 & ~(page - 1));
	}
	return result;
}

/* The lengths that are tried are powers of two: each bit of the distance is found by one call. */
void near__range_fill(struct near__range *r, size_t size)
{
	size_t end = whole_pages(size < r->size ? size : r->size), page = near__page_size(),
	       step = page;

	while (r->committed + step < end)
		step *= 2;
	for (; step >= page; step /= 2)
		if (r->committed + step <= end)
			commit_to(r, r->committed + step);
}

void near__range_cut(struct near__range *r, size_t committed)
{
	size_t size = r->committed - committed;
	char *p = r->down ? r->base - r->committed : r->base + committed;
	int saved = errno;

	r->committed = committed;
	if (size && (reserved ? sys_mprotect(p, size, PROT_NONE) : munmap(p, size)))
		r->committed += size;
	errno = saved;
}

/* madvise(2) refuses an address that is not a page's, and rounds the size up: other blocks are in
 * the rest of the first and the last page. */
void near__os_discard(void *p, size_t size)
{
	size_t page = near__page_size(), before = -(uintptr_t)p & (page - 1), whole;
	int saved = errno;

	before = before < size ? before : size;
	whole = (size - before) & ~(page - 1);
	memset(p, 0, before);
	/* Locked pages (mlock, mlockall) stay, as the program requested. */
	near__probe(NEAR__PROBE_DISCARD, p, size);
	if (whole && sys_madvise((char *)p + before, whole, MADV_DONTNEED))
		memset((char *)p + before, 0, whole);
	memset((char *)p + before + whole, 0, size - before - whole);
	errno = saved;
}

/* With the flags of the mapping around it, so that both become one again. */
bool near__os_renew(void *p, size_t size, int node)
{
	int saved = errno;
	void *at = mmap(p, size, RW, PRIVATE | MAP_FIXED | (reserved ? MAP_NORESERVE : 0), -1, 0);

	errno = saved;
	if (at == MAP_FAILED)
		return false;
	if (node >= 0)
		near__topology_prefer(p, size, (unsigned)node);
	return true;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Since Linux 5.14. A filter that allows other advice may end the process at this one, whatever it
 * has allowed before: hence a setting. */
void near__os_populate(void *p, size_t size)
{
	static bool cannot;
	size_t before = (uintptr_t)p & (near__page_size() - 1);
	int saved = errno;

	if (near__process.conf.few_calls)
		return;
	if (!__atomic_load_n(&cannot, __ATOMIC_RELAXED) &&
	    sys_madvise((char *)p - before, size + before, MADV_POPULATE_WRITE) && errno == EINVAL)
		__atomic_store_n(&cannot, true, __ATOMIC_RELAXED);
	errno = saved;
}

void *near__os_map(size_t size)
{
	int saved = errno;
	void *p = mmap(NULL, size, RW, PRIVATE, -1, 0);

	errno = saved;
	return p == MAP_FAILED ? NULL : p;
}

void near__os_release(void *p, size_t size)
{
	int saved = errno;

	munmap(p, size);
	errno = saved;
}

/* Bit 63 of the page's word. */
static bool is_in_pagemap(uintptr_t page)
{
	uint64_t entry = 0;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	syscall(SYS_pread64, fd, &entry, sizeof(entry), page / near__page_size() * sizeof(entry),
		0L);
	syscall(SYS_close, fd);
	return entry >> 63;
}

/* By mincore, which is several times as fast, where systemd's @system-service, which lacks it,
 * cannot be in force. */
bool near__os_is_resident(const void *p)
{
	unsigned char there = 0;
	int saved = errno;
	uintptr_t page = (uintptr_t)p & ~(near__page_size() - 1);

	if (near__calls_are_filtered())
		there = is_in_pagemap(page);
	else if (syscall(SYS_mincore, page, near__page_size(), &there))
		there = 0;
	errno = saved;
	return there & 1;
}

void near__os_no_huge_pages(void *p, size_t size)
{
	int saved = errno;

	sys_madvise(p, size, MADV_NOHUGEPAGE);
	errno = saved;
}

/* Unknown counts as no: then there is nothing to do. */
bool near__os_huge_pages_come(void)
{
	static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
	static int known; /* 1: no, 2: yes. Relaxed: threads find the same */
	int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (answer || near__process.conf.few_calls)
		return answer == 2;
	answer = near__file_has(path, "[always]") ? 2 : 1;
	__atomic_store_n(&known, answer, __ATOMIC_RELAXED);
	return answer == 2;
}

/* Whether the word can be read, and is this one: futex compares them before it would wait. */
static bool is_word(uint32_t *p, uint32_t word)
{
	return near__futex_sleep(p, word, 0, false) == -ETIMEDOUT;
}

/* The kernel may unmap `to` and then fail: before 6.17 if `from` spans several mappings, as it does
 * after earlier moves; or without memory. Other code may map there, before it is mapped again here.
 * A word at `to`, which no new mapping has, shows whether it was unmapped. */
enum near__moved near__os_move(void *to, void *from, size_t size, int node)
{
	uint32_t *first = to, mark = (uint32_t)((uintptr_t)to / NEAR__PAGE) | 1u << 31;
	int saved = errno;
	enum near__moved moved = NEAR__MOVED;
	void *at;

	/* qemu-user, which has no vDSO, treats the pages at `from` as unmapped afterwards. */
	if (near__process.conf.few_calls || !getauxval(AT_SYSINFO_EHDR))
		return NEAR__NOT_MOVED;
	*first = mark;
	/* It brings the policy of the old pages along; a mapping that is new has none. */
	at = mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);
	if (at == MAP_FAILED)
		moved = is_word(first, mark) || map_at(to, size, RW) == NEAR__USABLE
				? NEAR__NOT_MOVED
				: NEAR__MOVE_LOST;
	if (moved != NEAR__MOVE_LOST && node >= 0)
		near__topology_prefer(to, size, (unsigned)node);
	errno = saved;
	return moved;
}

/* The call ends at the first word that cannot be read, and returns the size of those before. */
void near__os_peek(uint64_t *to, uint64_t *const *from, unsigned n)
{
	struct iovec there[NEAR__PEEKED];
	int saved = errno;

	if (near__process.conf.few_calls)
		return;
	for (unsigned i = 0; i < n; i++)
		there[i] = (struct iovec){from[i], sizeof(*to)};
	for (unsigned i = 0; i < n; i++) {
		struct iovec here = {to + i, (n - i) * sizeof(*to)};
		ssize_t got = process_vm_readv(getpid(), &here, 1, there + i, n - i, 0);

		if (got < 0 && errno != EFAULT)
			break;
		i += got > 0 ? (unsigned)((size_t)got / sizeof(*to)) : 0;
	}
	errno = saved;
}

uint64_t near__os_ms(void)
{
	struct timespec t;

	near__tool_clock(CLOCK_MONOTONIC_COARSE, &t);
	return near__nanoseconds(t) / 1000000;
}

uint64_t near__os_random(void)
{
	int saved = errno;
	uint64_t n;
	long got = syscall(SYS_getrandom, &n, sizeof(n), GRND_NONBLOCK);

	if (got != (long)sizeof(n))
		n = near__hashed_random();
	errno = saved;
	return n;
}
