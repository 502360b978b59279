/* SPDX-License-Identifier: MIT */
/* dirty: a bit for each page, set if the page may have been written since the system provided it.
 * Valid for free pages. The caller holds the lock of their node, or has removed them from the free
 * runs. */
#ifndef NEARCPU_MALLOC_DIRTY_H
#define NEARCPU_MALLOC_DIRTY_H

#include "malloc/pages/runs.h"

void near__dirty_set(uint32_t first, uint32_t count, bool dirty);
uint32_t near__dirty_count(uint32_t first, uint32_t count);

/* The first dirty page of [first, end), else `end`. */
uint32_t near__dirty_next(uint32_t first, uint32_t end);

/* Returns the dirty pages to the system. Their bits stay. */
void near__dirty_discard(uint32_t first, uint32_t end);

/* The dirty runs, the oldest first. A run is inserted last; but first if it is due, as a run that
 * is cut and merged again and again must not stay dirty for ever. Clean runs are ignored. */
struct near__dirty_list {
	uint32_t oldest, newest;
};
void near__dirty_insert(struct near__dirty_list *all, uint32_t number);
void near__dirty_remove(struct near__dirty_list *all, uint32_t number);

/* Whether it was freed at least `decay_ms` ago. */
bool near__run_is_due(const struct near__run *r, uint64_t decay_ms);

#endif
