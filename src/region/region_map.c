/* SPDX-License-Identifier: MIT */
/* near_region: where its parts are, their blocks, and how it is mapped. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/page.h"
#include "region/region.h"

#define PIECE ((size_t)128 << 10) /* of the file, allocated or read by one call */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct region_layout near__region_lay_out(struct near__region_header *h)
{
	unsigned slots = near__region_slots(h->cpus);
	size_t bitmap = near__region_words(h->cpus) * sizeof(uint64_t);
	struct region_layout l;

	h->stride =
		near__round_up(h->size, h->size < REGION_PAGE ? 2 * NEAR__CACHE_LINE : REGION_PAGE);
	l.slots = REGION_DIRECTORY + h->objects * sizeof(struct region_entry);
	l.used = l.slots + slots * sizeof(uint64_t);
	l.full = l.used + bitmap;
	l.base = near__round_up(l.full + bitmap,
				h->stride < REGION_PAGE ? 2 * NEAR__CACHE_LINE : REGION_PAGE);
	l.copies = l.base + h->stride;
	l.common = near__round_up(l.copies + slots * h->stride, REGION_PAGE);
	h->total = l.common + h->common_size;
	return l;
}

/* In pieces: before Linux 6.11 tmpfs undoes a whole call when a signal comes, and signals may come
 * more often than the call takes. Not posix_fallocate: where the file system cannot, glibc's
 * writes zeros over what another process may have changed. */
static int blocks_allocate(int fd, size_t at, size_t end)
{
	while (at < end) {
		size_t piece = end - at < PIECE ? end - at : PIECE;

		if (fallocate(fd, 0, (off_t)at, (off_t)piece) == 0)
			at += piece;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Without the descriptor: a page that is written to has blocks. */
static int blocks_populate(const struct near_region *r, size_t at, size_t end)
{
	char *from = (char *)r->header + (at & ~(near__page_size() - 1));

	if (madvise(from, (size_t)((char *)r->header + end - from), MADV_POPULATE_WRITE) == 0)
		return 0;
	return errno == EFAULT ? -ENOSPC : -errno;
}

/* What `program` precedes is constant; `program` is not, in a trace file. */
bool near__region_has_file(const struct near_region *r)
{
	struct near__region_header h;
	struct stat st;

	return fstat(r->fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == r->total &&
	       pread(r->fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) &&
	       memcmp(&h, r->header, offsetof(struct near__region_header, program)) == 0;
}

bool near__region_is_read_only(int fd)
{
	return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

/* Of this process's CPUs, and of a thread that is not live: zeros behind a snapshot, which is laid
 * out for the CPUs of another machine, perhaps fewer. Sequences find no slot open there. */
static size_t own_words(bool read_only)
{
	return read_only ? (near__process.cpus + 1) * sizeof(uint64_t) : 0;
}

int near__region_map(struct near_region *r, int fd, struct near__region_header *h)
{
	bool read_only = near__region_is_read_only(fd);
	int flags = read_only ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
	struct region_layout l = near__region_lay_out(h);
	char *m;

	if (h->total > PTRDIFF_MAX - own_words(true)) /* where pointers have 32 bits */
		return -ENOMEM;
	m = mmap(NULL, (size_t)h->total + own_words(read_only), PROT_READ | PROT_WRITE, flags,
		 read_only ? -1 : fd, 0);
	if (m == MAP_FAILED)
		return -errno;
	r->read_only = read_only;
	r->header = (struct near__region_header *)m;
	r->slots = (uint64_t *)(m + (read_only ? h->total : l.slots));
	r->base = m + l.base;
	r->copies = m + l.copies;
	r->common = m + l.common;
	r->stride = h->stride;
	r->total = h->total;
	r->size = h->size;
	r->fd = fd;
	return 0;
}

void near__region_unmap(struct near_region *r)
{
	munmap(r->header, r->total + own_words(r->read_only));
	*r = (struct near_region){.fd = -1};
}

void near_region_close(struct near_region *r)
{
	struct region_caller c = near__region_enter();
	int fd = near__region_has_file(r) ? r->fd : -1;

	near__region_unmap(r);
	near__region_leave(c, fd < 0 ? 0 : close(fd));
}

/* Holes are zeros already: a file that others made may have terabytes of them. The last byte is
 * read in any case: the file has it. */
static int read_whole(int fd, char *to, size_t at, size_t end)
{
	while (at < end) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA);
		ssize_t n;

		if (data >= 0 || errno == ENXIO)
			at = data >= 0 && (size_t)data < end ? (size_t)data : end - 1;
		n = pread(fd, to + at, end - at < PIECE ? end - at : PIECE, (off_t)at);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -ENODATA;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int near__region_write_whole(const struct near_region *r, int fd)
{
	static char zeros[REGION_PAGE]; /* const ones would be in the library's file */

	if (fallocate(fd, 0, 0, REGION_PAGE) == 0 || errno != EOPNOTSUPP)
		return 0;
	for (size_t at = 0; at < r->total;) {
		size_t left = r->total - at;
		ssize_t n = pwrite(fd, zeros, left < REGION_PAGE ? left : REGION_PAGE, (off_t)at);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int near__region_provide(const struct near_region *r, int fd, size_t at, size_t end)
{
	int err = r->read_only ? read_whole(fd, (char *)r->header, at, end)
		  : fd < 0     ? blocks_populate(r, at, end)
			       : blocks_allocate(fd, at, end);

	return err == -EOPNOTSUPP ? 0 : err;
}

int near__region_provide_slot(const struct near_region *r, int fd, unsigned slot)
{
	size_t at = near_region_file_offset(r, near_region_at(r, slot, 0));

	return near__region_provide(r, fd, at, at + r->stride);
}

int near__region_provide_once(const struct near_region *r, int fd, uint64_t offset, uint64_t size)
{
	size_t at = near_region_file_offset(r, near_region_common(r, offset));

	return near__region_provide(r, fd, at, at + size);
}

int near_region_populate(const struct near_region *r, const struct near_region_object *o,
			 uint64_t from, uint64_t size)
{
	struct region_caller c = near__region_enter();
	int err = -EINVAL;

	if (o->flags & NEAR_REGION_SPARSE && from <= o->size && size <= o->size - from)
		err = near__region_provide_once(r, near__region_has_file(r) ? r->fd : -1,
						o->offset + from, size);
	return near__region_leave(c, err);
}

int near_region_reopen(const struct near_region *r)
{
	struct region_caller c = near__region_enter();
	char name[32];
	int fd;

	if (!near__region_has_file(r))
		return near__region_leave(c, -EBADF);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", r->fd);
	fd = open(name, O_RDWR | O_CLOEXEC);
	return near__region_leave(c, fd < 0 ? -errno : fd);
}
