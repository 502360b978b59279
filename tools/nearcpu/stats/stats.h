/* SPDX-License-Identifier: MIT */
/* stats: what nearcpu stats read, and the forms that it prints. */
#ifndef NEARCPU_TOOL_STATS_H
#define NEARCPU_TOOL_STATS_H

#include <nearcpu/histogram.h>
#include <nearcpu/shared_counters.h>

#include "common/tool.h"

#include <jansson.h>

struct content {
	const char *path;
	struct near_region region;
	struct near_region_object *objects; /* in the order of their names */
	unsigned count;
	struct near_region_stats status;
	unsigned buckets; /* of an exponential histogram, at most */
	json_t *metrics;  /* of OpenTelemetry, while they are made */
	uint64_t self;    /* the owner's word of this process */
	unsigned damaged; /* not 0: histograms are not what the directory has about them */
};

/* One of an object's counters or values, with all its labels; pid 0: of no process. */
struct number {
	int64_t value;
	uint64_t pid;
	char labels[NEAR_REGION_LABELS + 64];
};

/* How many an object has; whether they may fall, as they say; and one of them. False: it belongs
 * to no process. */
size_t numbers_of(const struct near_region_object *o);
bool is_gauge(const struct near_region_object *o);
bool read_number(struct content *c, const struct near_region_object *o, size_t i,
		 struct number *out);

/* Of an object that is a histogram; false: it is damaged, which is counted. */
bool read_histogram(struct content *c, const struct near_region_object *o,
		    struct near_histogram_snapshot *s);

/* The objects of each name, which are next to each other, if the first has values. */
void each_name(struct content *c,
	       void (*take)(struct content *c, const struct near_region_object *o, unsigned count));

/* name{labels} */
void print_name(const char *name, const char *labels);

void print_text(struct content *c);
void print_prometheus(struct content *c, bool as_openmetrics);

/* NULL without memory. */
json_t *region_json(struct content *c);

#endif
