/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "malloc/observe/stats.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static void flush(struct near__out *o)
{
	if (o->used && !o->error)
		o->error = o->write(o->arg, o->text, o->used);
	o->used = 0;
}

void near__out_begin(struct near__out *o, near__write *write, void *arg)
{
	o->write = write;
	o->arg = arg;
	o->error = 0;
	o->used = 0;
}

void near__out_text(struct near__out *o, const char *text)
{
	for (; *text; text++) {
		if (o->used == sizeof(o->text))
			flush(o);
		o->text[o->used++] = *text;
	}
}

void near__out_number(struct near__out *o, uint64_t n, unsigned width)
{
	char digits[21], *at = digits + sizeof(digits);

	*--at = '\0';
	do {
		*--at = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	for (unsigned used = (unsigned)(digits + sizeof(digits) - 1 - at); used < width; used++)
		near__out_text(o, " ");
	near__out_text(o, at);
}

int near__out_end(struct near__out *o)
{
	flush(o);
	return o->error;
}

/* The system call itself: write() is a cancellation point, and malloc_stats must be none. */
int near__write_fd(void *arg, const char *text, size_t size)
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
