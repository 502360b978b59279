/* SPDX-License-Identifier: MIT */
#include "malloc/base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The system call itself: write() is a cancellation point. */
static void write_all(struct near__text *t, const char *bytes, size_t n)
{
	int saved = errno;

	while (n && !t->error) {
		long written = syscall(SYS_write, t->fd, bytes, n);

		if (written > 0) {
			bytes += written;
			n -= (size_t)written;
		} else if (written == 0 || errno != EINTR) {
			t->error = written ? errno : EIO;
		}
	}
	errno = saved;
}

bool near__text_flush(struct near__text *t)
{
	write_all(t, t->buffer, t->used);
	t->used = 0;
	return !t->error;
}

void near__text_bytes(struct near__text *t, const char *bytes, size_t n)
{
	if (n > sizeof(t->buffer) - t->used)
		near__text_flush(t);
	if (n > sizeof(t->buffer)) {
		write_all(t, bytes, n);
		return;
	}
	memcpy(t->buffer + t->used, bytes, n);
	t->used += n;
}

void near__text_add(struct near__text *t, const char *text)
{
	near__text_bytes(t, text, strlen(text));
}

static void add_number(struct near__text *t, uint64_t n, unsigned base)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	near__text_bytes(t, digits + at, sizeof(digits) - at);
}

void near__text_number(struct near__text *t, uint64_t n)
{
	add_number(t, n, 10);
}

void near__text_hex(struct near__text *t, uintptr_t n)
{
	near__text_add(t, "0x");
	add_number(t, n, 16);
}
