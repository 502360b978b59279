/* SPDX-License-Identifier: MIT */
/* array: arrays that grow, and that are sorted: their elements begin with an address, a
 * uint64_t. */
#ifndef NEARCPU_CHECK_ARRAY_H
#define NEARCPU_CHECK_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "common/memory.h"

/* By address. */
void array_sort(void *array, size_t count, size_t size);

/* How many elements have an address of at most `address`. */
size_t array_find(const void *array, size_t count, size_t size, uint64_t address);

#endif
