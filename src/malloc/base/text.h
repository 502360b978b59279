/* SPDX-License-Identifier: MIT */
/* text: lines to a file descriptor, by system calls alone: in signal handlers and in the middle of
 * malloc, too. errno is left alone. */
#ifndef NEARCPU_MALLOC_TEXT_H
#define NEARCPU_MALLOC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero but `fd` is a start. */
struct near__text {
	int fd;
	int error; /* the first errno of a write */
	size_t used;
	char buffer[512];
};

void near__text_add(struct near__text *t, const char *text);
void near__text_bytes(struct near__text *t, const char *bytes, size_t n);
void near__text_number(struct near__text *t, uint64_t n);
void near__text_hex(struct near__text *t, uintptr_t n); /* 0x1f */
bool near__text_flush(struct near__text *t);            /* false: something was not written */

#endif
