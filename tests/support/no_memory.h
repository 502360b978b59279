/* SPDX-License-Identifier: MIT */
/* For programs that are linked with --wrap=calloc: memory can be exhausted, and errno shows it. */
#ifndef NEARCPU_TESTS_NO_MEMORY_H
#define NEARCPU_TESTS_NO_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static bool no_memory;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	if (no_memory) {
		errno = ENOMEM;
		return NULL;
	}
	return __real_calloc(n, size);
}

#endif
