/* SPDX-License-Identifier: MIT */
/* stats: the statistics as JSON, and at the end of the process. */
#ifndef NEARCPU_MALLOC_STATS_H
#define NEARCPU_MALLOC_STATS_H

#include <limits.h>
#include <nearcpu/malloc.h>
#include <stdbool.h>

#include "base/fork.h"
#include "base/conf.h"
#include "malloc/base/classes.h"
#include "malloc/base/out.h"

/* stats_json.c: as near_malloc_stats_json, but counts begin at `base`, unless it is NULL. */
struct near__stats_base {
	struct near_malloc_stats all;
	struct near_malloc_class_stats classes[NEAR__SIZES];
};
/* malloc_stats.c: all of it, in one pass. */
void near__stats_read(struct near__stats_base *out);
void near__stats_take_base(struct near__stats_base *base);
int near__stats_json_since(const struct near__stats_base *base, struct near__out *o);

/* stats_exit.c: in the child of a fork counts begin here. */
void near__stats_fork_child(void);
/* Copies the name of the file for the statistics at the end, and appends `suffix`. */
void near__stats_begin(const char *suffix);
/* The same of any setting; a relative name stands for the directory of now. "": it is not set, or
 * too long. */
void near__stats_name(char out[PATH_MAX], const struct near__conf_text *name, const char *suffix);

/* publish.c: NEAR_CONF=malloc_region:FILE. The first copies its name; the others are no calls of
 * the allocator, and require that no lock is held. */
void near__publish_begin(const char *suffix);
void near__publish_allow(void); /* constructors run */
void near__publish_fork(near__fork_step *step);
/* In the child of a fork; counts: what its parent counted is to be left out. */
void near__publish_fork_child(bool counts);

#endif
