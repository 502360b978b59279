/* SPDX-License-Identifier: MIT */
/* single: classes whose spans have one block, and need no descriptor. */
#ifndef NEARCPU_MALLOC_SINGLE_H
#define NEARCPU_MALLOC_SINGLE_H

#include "malloc/central/central.h"

static inline bool near__is_single(unsigned class)
{
	return near__sizes[class].objects == 1;
}

unsigned near__single_batch(unsigned class);
/* A list of at most `most` blocks, and at most a batch; in a small heap of one block. An empty one:
 * no memory. */
uint64_t near__single_take(unsigned node, unsigned class, unsigned most);
void near__single_give(unsigned class, uint64_t list);
void near__single_stats(unsigned class, struct near__central_stats *out);

#endif
