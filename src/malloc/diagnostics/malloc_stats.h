/* SPDX-License-Identifier: MIT */
/* stats: the statistics as JSON, and at the end of the process. */
#ifndef NEARCPU_MALLOC_STATS_H
#define NEARCPU_MALLOC_STATS_H

#include <nearcpu/malloc.h>

#include "malloc/base/classes.h"
#include "malloc/base/out.h"

/* stats_json.c: as near_malloc_stats_json, but counts begin at `base`, unless it is NULL. */
struct near__stats_base {
	struct near_malloc_stats all;
	struct near_malloc_class_stats classes[NEAR__SIZES];
};
void near__stats_take_base(struct near__stats_base *base);
int near__stats_json_since(const struct near__stats_base *base, struct near__out *o);

/* stats_exit.c: in the child of a fork counts begin here. */
void near__stats_fork_child(void);
/* Copies the name of the file for the statistics at the end, and appends `suffix`. */
void near__stats_begin(const char *suffix);

#endif
