/* SPDX-License-Identifier: MIT */
/* array: growing arrays, and sorted arrays whose elements begin with an address, a uint64_t. */
#ifndef NEARCPU_CHECK_ARRAY_H
#define NEARCPU_CHECK_ARRAY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Grows *array of elements of `size` to hold one more than `count`. */
bool array_grow(void *array, size_t count, size_t size);

/* Appends a value. 0 or -ENOMEM. */
#define ARRAY_ADD(array, count, ...)                                                               \
	(array_grow(&(array), count, sizeof(*(array))) ? ((array)[(count)++] = __VA_ARGS__, 0)     \
						       : -ENOMEM)

/* By address. */
void array_sort(void *array, size_t count, size_t size);

/* How many elements have an address of at most `address`. */
size_t array_find(const void *array, size_t count, size_t size, uint64_t address);

#endif
