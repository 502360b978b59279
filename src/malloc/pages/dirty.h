/* SPDX-License-Identifier: MIT */
/* dirty: a bit for each page, set while something may stand there that was written since the
 * system gave it. Kept for free pages; the caller holds the lock of their node, or has taken
 * them out. */
#ifndef NEARCPU_MALLOC_DIRTY_H
#define NEARCPU_MALLOC_DIRTY_H

#include "malloc/pages/runs.h"

void near__dirty_set(uint32_t first, uint32_t count, bool dirty);
bool near__dirty_any(uint32_t first, uint32_t count);

/* The first dirty page of [first, end), else `end`. */
uint32_t near__dirty_next(uint32_t first, uint32_t end);

/* Gives the pages of the dirty ones back. Their bits stay. */
void near__dirty_discard(uint32_t first, uint32_t end);

/* The dirty runs, by age. A run is inserted behind the others; but before them if it is due, as one
 * that goes on being cut and merged must not stay dirty for ever. A clean one is left alone. */
struct near__dirty_list {
	uint32_t oldest, newest;
};
void near__dirty_insert(struct near__dirty_list *all, uint32_t number);
void near__dirty_remove(struct near__dirty_list *all, uint32_t number);

/* Whether it was freed `decay_ms` ago or earlier. */
bool near__run_is_due(const struct near__run *r, uint64_t decay_ms);

#endif
