/* SPDX-License-Identifier: MIT */
/* Output without stdio. */
#include "malloc/base/out.h"

#include <errno.h>
#include <stdarg.h>
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

static void put_number(struct near__out *o, unsigned long n, unsigned base, size_t width)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	for (size_t used = sizeof(digits) - at; used < width; used++)
		near__out_bytes(o, " ", 1);
	near__out_bytes(o, digits + at, sizeof(digits) - at);
}

static const char *put_item(struct near__out *o, const char *format, va_list *args)
{
	size_t width = 0;

	for (; *format >= '0' && *format <= '9'; format++)
		width = width * 10 + (size_t)(*format - '0');
	if (*format == 's') {
		const char *text = va_arg(*args, const char *);

		near__out_bytes(o, text, strlen(text));
		return format + 1;
	}
	if (*format == '#') {
		near__out_bytes(o, "0x", 2);
		put_number(o, va_arg(*args, unsigned long), 16, 0);
		return format + 3;
	}
	put_number(o, va_arg(*args, unsigned long), 10, width);
	return format + 2;
}

void near__out_print(struct near__out *o, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	while (*format) {
		size_t n = strcspn(format, "%");

		near__out_bytes(o, format, n);
		format += n;
		if (*format)
			format = put_item(o, format + 1, &args);
	}
	va_end(args);
}
