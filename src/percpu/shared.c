/* SPDX-License-Identifier: MIT */
/* Regions shared by processes.
 *
 *     header (a page) | used: a bit per slot | baselines: size bytes | slot 0 ... slot 2 * cpus
 *
 * Sequences write slots 0 to cpus - 1. A thread that is not live reads `cpus` as its slot, which
 * never opens. The slots after it are fallback slots. A process may be killed at any moment, so
 * every change of the header and of the state words is one atomic step that may be repeated. */
#define _GNU_SOURCE
#include <nearcpu/shared.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define MAGIC UINT64_C(0x317265687361656e) /* "neasher1" */
#define PIECE ((size_t)128 << 10)          /* of the file, written by one call */
#define STATE_SIZE 64
#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

struct header {
	uint64_t magic;
	uint64_t size, stride, total;
	uint32_t cpus;
	uint32_t pad;
	uint64_t used[]; /* followed by the baselines, then by the slots */
};

struct layout {
	size_t baselines, copies, stride, total;
};

static unsigned slots_of(unsigned cpus)
{
	return 2 * cpus + 1;
}

static struct layout layout_of(size_t size, unsigned cpus)
{
	struct layout l;

	l.stride = ROUND_UP(STATE_SIZE + size, 2 * NEAR__CACHE_LINE);
	l.baselines = ROUND_UP(sizeof(struct header) + slots_of(cpus) / 8 + 8, NEAR__CACHE_LINE);
	l.copies = ROUND_UP(l.baselines + size, 4096);
	l.total = l.copies + slots_of(cpus) * l.stride;
	return l;
}

static int64_t *baseline_of(const struct near_shared *s, size_t offset)
{
	struct layout l = layout_of(s->size, near__process.cpus);

	return (int64_t *)((char *)s->header + l.baselines + offset);
}

static char *copy_of(const struct near_shared *s, unsigned slot)
{
	return s->copies + slot * s->stride;
}

static int map(struct near_shared *s, int fd, const struct layout *l, size_t size)
{
	void *m = mmap(NULL, l->total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (m == MAP_FAILED)
		return -errno;
	s->header = m;
	s->copies = (char *)m + l->copies;
	s->stride = l->stride;
	s->size = size;
	s->fd = fd;
	return 0;
}

/* In pieces: before Linux 6.11 tmpfs undoes a whole call when a signal comes, and signals may come
 * more often than the call takes. */
static int allocate(int fd, size_t total)
{
	size_t at = 0, piece;
	int r;

	while (at < total) {
		piece = total - at < PIECE ? total - at : PIECE;
		r = posix_fallocate(fd, (off_t)at, (off_t)piece);
		if (r && r != EINTR)
			return -r;
		at += r ? 0 : piece;
	}
	return 0;
}

static int make(struct near_shared *s, int fd, size_t size)
{
	struct layout l = layout_of(size, near__process.cpus);
	struct header *h;
	int r;

	if (size == 0 || size % sizeof(int64_t))
		return -EINVAL;
	if (size > NEAR_SHARED_MAX_SIZE)
		return -E2BIG;
	r = allocate(fd, l.total);
	if (r == 0)
		r = map(s, fd, &l, size);
	if (r)
		return r;
	h = s->header;
	h->size = size;
	h->stride = l.stride;
	h->total = l.total;
	h->cpus = near__process.cpus;
	h->magic = MAGIC;
	return 0;
}

/* Whether sequences or reads would access the wrong memory: the slot of threads that are not live
 * is open, or a slot that does not exist is marked as used. */
static bool is_damaged(const struct near_shared *s)
{
	const struct header *h = s->header;
	unsigned slots = slots_of(near__process.cpus);
	uint64_t beyond = slots % 64 ? ~UINT64_C(0) << slots % 64 : 0;

	return *(uint32_t *)copy_of(s, near__process.cpus) != NEAR__UNOPENED ||
	       h->used[slots / 64] & beyond;
}

/* Reads the header by pread, so that a file that is too short cannot fault. */
static int join(struct near_shared *s, int fd, size_t size)
{
	struct header h;
	struct layout l;
	struct stat st;
	int r;

	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) || h.magic != MAGIC)
		return -EBADMSG;
	if (h.cpus != near__process.cpus)
		return -EXDEV;
	if (h.size == 0 || h.size % sizeof(int64_t) || h.size > NEAR_SHARED_MAX_SIZE)
		return -EBADMSG;
	l = layout_of(h.size, h.cpus);
	if (h.stride != l.stride || h.total != l.total || fstat(fd, &st) ||
	    (uint64_t)st.st_size < l.total)
		return -EBADMSG;
	if (size && size != h.size)
		return -EINVAL;
	r = map(s, fd, &l, h.size);
	if (r == 0 && is_damaged(s)) {
		munmap(s->header, l.total);
		r = -EBADMSG;
	}
	return r;
}

static int with_fd(struct near_shared *s, int fd, size_t size,
		   int (*step)(struct near_shared *, int, size_t))
{
	int r;

	memset(s, 0, sizeof(*s));
	if (fd < 0)
		return -errno;
	near__process_init();
	near__thread_live();
	r = step(s, fd, size);
	if (r)
		close(fd);
	return r;
}

/* The region is made without a name, or under one of its own, and linked to `path` when it is
 * whole: no process ever sees a part of one. -EEXIST: another process was faster. */
static int make_unnamed(struct near_shared *s, const char *path, size_t size)
{
	const char *slash = strrchr(path, '/');
	char name[PATH_MAX];
	int r;

	snprintf(name, sizeof(name), "%.*s.", slash ? (int)(slash - path + 1) : 0, path);
	r = with_fd(s, open(name, O_RDWR | O_TMPFILE | O_CLOEXEC, 0666), size, make);
	if (r)
		return r;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", s->fd);
	if (linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW)) {
		r = -errno;
		near_shared_close(s);
	}
	return r;
}

/* The time makes the name differ between threads, and most likely between processes that have the
 * same id on two machines with one file system. If the name exists, another is tried. */
static int open_own_name(char *name, const char *path)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path + 1) : 0, fd;
	struct timespec t;

	do {
		clock_gettime(CLOCK_REALTIME, &t);
		if (snprintf(name, PATH_MAX, "%.*s.nearcpu-%d-%lx", folder, path, (int)getpid(),
			     (unsigned long)t.tv_nsec) >= PATH_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	} while (fd < 0 && errno == EEXIST);
	return fd;
}

static int make_named(struct near_shared *s, const char *path, size_t size)
{
	char name[PATH_MAX];
	int fd = open_own_name(name, path), r = with_fd(s, fd, size, make);

	if (r == 0 && link(name, path)) {
		r = -errno;
		near_shared_close(s);
	}
	if (fd >= 0)
		unlink(name);
	return r;
}

/* Not every file system has files without a name, and not every container /proc. */
static int make_file(struct near_shared *s, const char *path, size_t size)
{
	int r;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = make_unnamed(s, path, size);
	return r == -EOPNOTSUPP || r == -EISDIR || r == -ENOENT ? make_named(s, path, size) : r;
}

int near_shared_open(struct near_shared *s, const char *path, size_t size)
{
	int saved = errno, r = with_fd(s, open(path, O_RDWR | O_CLOEXEC), size, join);

	if (r == -ENOENT && size)
		r = make_file(s, path, size);
	if (r == -EEXIST)
		r = with_fd(s, open(path, O_RDWR | O_CLOEXEC), size, join);
	errno = saved;
	return r;
}

int near_shared_create(struct near_shared *s, size_t size)
{
	int saved = errno, r = with_fd(s, memfd_create("nearcpu", MFD_CLOEXEC), size, make);

	errno = saved;
	return r;
}

int near_shared_attach(struct near_shared *s, int fd)
{
	int saved = errno, r = with_fd(s, fcntl(fd, F_DUPFD_CLOEXEC, 0), 0, join);

	errno = saved;
	return r;
}

void near_shared_close(struct near_shared *s)
{
	int saved = errno;

	munmap(s->header, layout_of(s->size, near__process.cpus).total);
	close(s->fd);
	memset(s, 0, sizeof(*s));
	errno = saved;
}

/* Sets the bit before the state word, as percpu.c does. */
static void open_slot(struct near_shared *s, unsigned slot, uint32_t open)
{
	struct header *h = s->header;
	uint32_t *state = (uint32_t *)copy_of(s, slot);

	if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == open)
		return;
	__atomic_fetch_or(&h->used[slot / 64], (uint64_t)1 << slot % 64, __ATOMIC_RELEASE);
	__atomic_store_n(state, open, __ATOMIC_RELEASE);
}

void near__shared_add_slow(struct near_shared *s, size_t offset, int64_t n)
{
	unsigned cpus = near__process.cpus, slot;

	for (int i = 0; i < NEAR_SEQ_TRIES && near__thread_live(); i++) {
		slot = near_cpu();
		if (slot >= cpus)
			break;
		open_slot(s, slot, NEAR__OPEN);
		if (near__shared_try_add(s, offset, n))
			return;
	}
	slot = cpus + 1 + near__hint();
	slot = slot < slots_of(cpus) ? slot : cpus + 1;
	open_slot(s, slot, NEAR__OPEN_FALLBACK);
	__atomic_fetch_add((int64_t *)(copy_of(s, slot) + STATE_SIZE + offset), n,
			   __ATOMIC_RELAXED);
}

static uint64_t sum(const struct near_shared *s, size_t offset)
{
	const struct header *h = s->header;
	unsigned slots = slots_of(near__process.cpus);
	uint64_t total = 0;

	for (unsigned w = 0; w < (slots + 63) / 64; w++) {
		uint64_t bits = __atomic_load_n(&h->used[w], __ATOMIC_ACQUIRE);

		for (; bits; bits &= bits - 1) {
			unsigned slot = w * 64 + (unsigned)__builtin_ctzll(bits);

			total += __atomic_load_n(
				(uint64_t *)(copy_of(s, slot) + STATE_SIZE + offset),
				__ATOMIC_RELAXED);
		}
	}
	return total;
}

/* Baseline first, as in near_counter_read. */
int64_t near_shared_read(const struct near_shared *s, size_t offset)
{
	uint64_t base = (uint64_t)__atomic_load_n(baseline_of(s, offset), __ATOMIC_ACQUIRE);

	return (int64_t)(sum(s, offset) - base);
}

int64_t near_shared_reset(struct near_shared *s, size_t offset)
{
	int64_t *at = baseline_of(s, offset);
	int64_t base = __atomic_load_n(at, __ATOMIC_ACQUIRE), now;

	do
		now = (int64_t)sum(s, offset);
	while (!__atomic_compare_exchange_n(at, &base, now, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
	return (int64_t)((uint64_t)now - (uint64_t)base);
}
