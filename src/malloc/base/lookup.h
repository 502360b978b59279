/* SPDX-License-Identifier: MIT */
/* lookup: from a size to a class (fast.h), by a table that changes once. */
#ifndef NEARCPU_MALLOC_LOOKUP_H
#define NEARCPU_MALLOC_LOOKUP_H

#include <stddef.h>

void near__lookup_begin(void);

/* The size of the heap in bytes has grown to this. */
void near__lookup_grown(size_t heap);

/* From now on all classes are used, however small the heap is; also before it begins. */
void near__lookup_all(void);

#endif
