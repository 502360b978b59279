/* SPDX-License-Identifier: MIT */
/* lookup: from a size to a class (fast.h), by a table that changes once. */
#ifndef NEARCPU_MALLOC_LOOKUP_H
#define NEARCPU_MALLOC_LOOKUP_H

#include <stddef.h>

void near__lookup_begin(void);

/* The heap takes so many bytes now. */
void near__lookup_grown(size_t heap);

#endif
