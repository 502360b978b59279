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
	unsigned damaged; /* not 0: histograms are not what the directory has about them */
};

/* Of an object of counters: how many, and the value of one. */
size_t counters_of(const struct near_region_object *o);
int64_t counter_value(struct content *c, const struct near_region_object *o, size_t i);

/* Of an object that is a histogram; false: it is damaged, which is counted. */
bool read_histogram(struct content *c, const struct near_region_object *o,
		    struct near_histogram_snapshot *s);

/* The objects of each name, which are next to each other, if the first has values. */
void each_name(struct content *c,
	       void (*take)(struct content *c, const struct near_region_object *o, unsigned count));

/* name{labels}, and another label if `more` is not NULL. */
void print_name(const struct near_region_object *o, const char *suffix, const char *more,
		const char *value);

void print_text(struct content *c);
void print_prometheus(struct content *c, bool as_openmetrics);

/* NULL without memory. */
json_t *region_json(struct content *c);

#endif
