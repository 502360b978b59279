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
void near__out_bytes(struct near__out *o, const char *bytes, size_t n);
/* As printf, of which it has %s, %lu, %#lx, and a width for %lu. */
__attribute__((format(printf, 2, 3))) void near__out_print(struct near__out *o, const char *format,
							   ...);
/* Writes the rest. Returns the error. */
int near__out_end(struct near__out *o);

#endif
