/* SPDX-License-Identifier: MIT */
/* memory: without it the command ends, with a message. */
#ifndef NEARCPU_TOOL_MEMORY_H
#define NEARCPU_TOOL_MEMORY_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool.h"

/* All zeros, to be freed. */
static inline void *allocate_zeros(size_t count, size_t size)
{
	void *all = calloc(count ? count : 1, size);

	if (!all)
		out_of_memory();
	return all;
}

static inline char *copy_text(const char *text)
{
	return strcpy(allocate_zeros(strlen(text) + 1, 1), text);
}

/* Grows *array of elements of `size`, which begins as NULL, to hold one more than `count`.
 * Capacities are powers of two, 8 or more, so that the count alone shows when the array is full. */
static inline void grow(void *array, size_t count, size_t size)
{
	void *old, *grown;

	if (count & (count - 1) || (count && count < 8))
		return;
	memcpy(&old, array, sizeof(old));
	grown = reallocarray(old, count < 8 ? 8 : 2 * count, size);
	if (!grown)
		out_of_memory();
	memcpy(array, &grown, sizeof(grown));
}

/* Appends a value. */
#define APPEND(array, count, ...)                                                                  \
	(grow(&(array), count, sizeof(*(array))), (array)[(count)++] = __VA_ARGS__)

/* A text that is written as a file is. */
struct memory_file {
	FILE *file;
	char *text; /* complete after memory_close; ends with 0, to be freed */
	size_t size;
};

static inline FILE *memory_open(struct memory_file *m)
{
	m->file = open_memstream(&m->text, &m->size);
	if (!m->file)
		out_of_memory();
	return m->file;
}

static inline void memory_close(const struct memory_file *m)
{
	bool failed = ferror(m->file);

	if (fclose(m->file) || failed)
		out_of_memory();
}

#endif
