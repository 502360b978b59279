/* SPDX-License-Identifier: MIT */
/* stats: how numbers are written without stdio, which may allocate. */
#ifndef NEARCPU_MALLOC_STATS_H
#define NEARCPU_MALLOC_STATS_H

#include <nearcpu/malloc.h>

#include "malloc/base/classes.h"

typedef int near__write(void *arg, const char *text, size_t size);

/* Collects text, and hands it on in pieces. The first error stays. */
struct near__out {
	near__write *write;
	void *arg;
	int error;
	size_t used;
	char text[512];
};

void near__out_begin(struct near__out *o, near__write *write, void *arg);
void near__out_text(struct near__out *o, const char *text);
/* Right-aligned in `width` columns. */
void near__out_number(struct near__out *o, uint64_t n, unsigned width);
/* What is left; returns the error. */
int near__out_end(struct near__out *o);

/* Writes all of it; arg: an int *, the descriptor. 0 or a negative errno. */
int near__write_fd(void *arg, const char *text, size_t size);

/* stats_json.c: as near_malloc_stats_json, but what is counted from `base` on, if that is one. */
struct near__stats_base {
	struct near_malloc_stats all;
	struct near_malloc_class_stats classes[NEAR__SIZES];
};
void near__stats_take_base(struct near__stats_base *base);
int near__stats_json_since(const struct near__stats_base *base, near__write *write, void *arg);

/* stats_exit.c: the child of a fork counts from there on. */
void near__stats_fork_child(void);
/* Keeps where the settings want the statistics at the end. */
void near__stats_begin(void);

#endif
