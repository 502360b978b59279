/* SPDX-License-Identifier: MIT */
/* Output without stdio. */
#include "malloc/base/out.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The system call itself: write() is a cancellation point, and malloc_stats must be none. */
static int write_fd(void *arg, const char *text, size_t size)
{
	const int *fd = arg;
	int saved = errno, error = 0;

	while (size && !error) {
		long n = syscall(SYS_write, *fd, text, size);

		if (n == 0 || (n < 0 && errno != EINTR))
			error = n ? -errno : -EIO;
		if (n > 0) {
			text += n;
			size -= (size_t)n;
		}
	}
	errno = saved;
	return error;
}

void near__out_begin(struct near__out *o, near__write *write, void *arg)
{
	o->write = write;
	o->arg = arg;
	o->error = 0;
	o->used = 0;
}

void near__out_begin_fd(struct near__out *o, int fd)
{
	o->fd = fd;
	near__out_begin(o, write_fd, &o->fd);
}

int near__out_end(struct near__out *o)
{
	if (o->used && !o->error)
		o->error = o->write(o->arg, o->text, o->used);
	o->used = 0;
	return o->error;
}

void near__out_bytes(struct near__out *o, const char *bytes, size_t n)
{
	while (n) {
		size_t part = sizeof(o->text) - o->used;

		part = n < part ? n : part;
		memcpy(o->text + o->used, bytes, part);
		o->used += part;
		bytes += part;
		n -= part;
		if (o->used == sizeof(o->text))
			near__out_end(o);
	}
}

void near__out_text(struct near__out *o, const char *text)
{
	near__out_bytes(o, text, strlen(text));
}

static void put_number(struct near__out *o, uint64_t n, unsigned base, unsigned width)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	for (size_t used = sizeof(digits) - at; used < width; used++)
		near__out_text(o, " ");
	near__out_bytes(o, digits + at, sizeof(digits) - at);
}

void near__out_number(struct near__out *o, uint64_t n, unsigned width)
{
	put_number(o, n, 10, width);
}

void near__out_hex(struct near__out *o, uintptr_t n)
{
	near__out_text(o, "0x");
	put_number(o, n, 16, 0);
}
