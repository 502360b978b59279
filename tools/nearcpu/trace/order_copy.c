/* SPDX-License-Identifier: MIT */
/* nearcpu trace snapshot of a process that has no thread for orders, such as a child of fork: this
 * command copies the file, as src/trace/trace_snapshot.c does in the process. What may have been
 * overwritten during the copy is dropped: the position that is loaded after membarrier is at least
 * that of the newest data that was copied (src/trace/format.h). */
#include "base/clock.h"
#include "trace/print.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <nearcpu/seq.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/output.h"

#define SUB NEAR__TRACE_SUB_SIZE
#define HEADER_AT (NEAR__TRACE_PAGE - sizeof(struct near__trace_ring))
#define TRIES 8

struct copy {
	const struct trace_file *from;
	int fd, err;
	char buffer[SUB];
};

static void copy_put(struct copy *c, const void *data, uint64_t at, size_t size)
{
	if (!c->err)
		c->err = write_at(c->fd, data, size, at);
}

/* Holes stay holes. */
static void copy_range(struct copy *c, uint64_t at, uint64_t end)
{
	while (at < end && !c->err) {
		off_t data = lseek(c->from->fd, (off_t)at, SEEK_DATA);
		size_t n = sizeof(c->buffer);

		if (data < 0)
			return;
		at = (uint64_t)data > at ? (uint64_t)data : at;
		if (at >= end)
			return;
		n = trace_read(c->from, c->buffer, at, end - at < n ? end - at : n);
		if (!n)
			return;
		copy_put(c, c->buffer, at, n);
		at += n;
	}
}

static uint64_t oldest(uint64_t position, uint64_t size)
{
	return position < size ? 0 : ((position - size) / SUB + 1) * SUB;
}

static void copy_data(struct copy *c, uint64_t data_at, uint64_t begin, uint64_t end)
{
	uint64_t mask = c->from->session.ring_size - 1;

	for (uint64_t p = begin, next; p < end; p = next) {
		next = (p | (SUB - 1)) + 1 < end ? (p | (SUB - 1)) + 1 : end;
		copy_range(c, data_at + (p & mask), data_at + (p & mask) + (next - p));
	}
}

static uint64_t load_position(const struct copy *c, uint64_t at)
{
	uint64_t position = 0;

	trace_read(c->from, &position, at, sizeof(position));
	return position & ~UINT64_C(7);
}

/* Without the registration of the process the slow one, of all CPUs. */
static void fence(const struct copy *c)
{
	int command = c->from->session.flags & NEAR__TRACE_FENCES ? MEMBARRIER_CMD_GLOBAL_EXPEDITED
								  : MEMBARRIER_CMD_GLOBAL;

	syscall(SYS_membarrier, command, 0, 0);
}

static void copy_ring(struct copy *c, uint64_t at)
{
	uint64_t size = c->from->session.ring_size, begin, end, from, data_at;
	static const uint64_t dropped = NEAR__TRACE_DROPPED;
	struct near__trace_ring h;
	unsigned tries = 0;

	if (trace_read(c->from, &h, at + HEADER_AT, sizeof(h)) != sizeof(h) ||
	    (!h.position && !h.discarded))
		return;
	data_at = at + NEAR__TRACE_PAGE;
	do {
		end = load_position(c, at + HEADER_AT);
		begin = oldest(end, size);
		/* The data are read after the position: pairs with the release of the commit. */
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		copy_data(c, data_at, begin, end);
		fence(c);
		from = oldest(load_position(c, at + HEADER_AT), size);
	} while (from > begin + (end - begin) / 2 && ++tries < TRIES && !c->err);
	for (uint64_t p = begin; p < from && p < end; p += SUB)
		copy_put(c, &dropped, data_at + (p & (size - 1)), sizeof(dropped));
	h.position = end;
	copy_put(c, &h, at + HEADER_AT, sizeof(h));
}

/* No thread of the process has stored a later moment, from which the counter's rate follows. */
static void put_session(struct copy *c)
{
	struct near__trace_session s = c->from->session;

	s.ended = 1;
	s.latest_count++;
	s.latest[s.latest_count % 2] = (struct near__trace_moment){
		near_clock(), near__clock_ns(CLOCK_MONOTONIC), near__clock_ns(CLOCK_REALTIME), 0};
	copy_put(c, &s, c->from->used_at - sizeof(s), sizeof(s));
}

static void copy_all(struct copy *c)
{
	const struct trace_file *f = c->from;

	if (ftruncate(c->fd, (off_t)f->size))
		c->err = -errno;
	copy_range(c, 0, f->rings_at);
	for (unsigned i = 0; i < f->ring_count && !c->err; i++)
		copy_ring(c, f->rings_at + i * f->session.ring_stride);
	copy_range(c, f->rings_at + f->rings_size, f->size);
	put_session(c);
}

int trace_copy(const struct trace_file *f, const char *path)
{
	struct copy *c = allocate_zeros(1, sizeof(*c));
	struct stat st;
	int code;

	c->from = f;
	c->err = fstat(f->fd, &st) ? -errno : 0;
	c->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0777);
	if (c->fd < 0) {
		c->err = -errno;
	} else {
		copy_all(c);
		if (close(c->fd) && !c->err)
			c->err = -errno;
		if (c->err)
			unlink(path);
	}
	code = c->err ? failure("trace", "cannot make '%s': %s", path, strerror(-c->err))
		      : EXIT_DONE;
	free(c);
	return code;
}
