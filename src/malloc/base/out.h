/* SPDX-License-Identifier: MIT */
/* out: text and numbers, without stdio, which may allocate. near__out_begin_fd writes by system
 * calls alone: in signal handlers and in the middle of malloc, too. errno stays. */
#ifndef NEARCPU_MALLOC_OUT_H
#define NEARCPU_MALLOC_OUT_H

#include <stddef.h>
#include <stdint.h>

/* Writes all of it. Returns 0 or a negative errno. */
typedef int near__write(void *arg, const char *text, size_t size);

/* Collects text, and passes it on in pieces. The first error stays, and stops the output. */
struct near__out {
	near__write *write;
	void *arg;
	int fd;
	int error;
	size_t used;
	char text[512];
};

void near__out_begin(struct near__out *o, near__write *write, void *arg);
void near__out_begin_fd(struct near__out *o, int fd);
void near__out_text(struct near__out *o, const char *text);
void near__out_bytes(struct near__out *o, const char *bytes, size_t n);
/* Right-aligned in `width` columns. */
void near__out_number(struct near__out *o, uint64_t n, unsigned width);
void near__out_hex(struct near__out *o, uintptr_t n); /* 0x1f */
/* Writes the rest. Returns the error. */
int near__out_end(struct near__out *o);

#endif
