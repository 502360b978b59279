/* SPDX-License-Identifier: MIT */
/* plain: allocation and free without hooks. */
#ifndef NEARCPU_MALLOC_PLAIN_H
#define NEARCPU_MALLOC_PLAIN_H

#include "base/probe.h"
#include "malloc/pages/pages.h"

/* Sets errno to ENOMEM, and returns NULL. */
void *near__no_memory(void);

/* NULL and ENOMEM: no memory. *zero: whether the block is all zero. */
void *near__plain_alloc(size_t align, size_t n, bool *zero);
/* Stops the program unless a block begins there. */
void near__plain_free(struct near__place at);
/* The usable size of a block. */
size_t near__plain_size(struct near__place at);

/* Returns p, a block of `had` bytes of which the program keeps the first n. */
static inline void *near__plain_cut(void *p, size_t had, size_t n)
{
	if (n < had)
		near__probe(NEAR__PROBE_FREE, (char *)p + n, had - n);
	return p;
}

#endif
