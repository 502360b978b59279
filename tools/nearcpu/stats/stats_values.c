/* SPDX-License-Identifier: MIT */
/* The values of a region's objects. */
#include "stats/stats.h"

#include <string.h>

size_t counters_of(const struct near_region_object *o)
{
	return o->kind == NEAR_REGION_COUNTERS && !o->flags ? o->size / sizeof(int64_t) : 0;
}

int64_t counter_value(struct content *c, const struct near_region_object *o, size_t i)
{
	struct near_shared_counters s;

	return near_shared_counters_open_object(&s, &c->region, o)
		       ? 0
		       : near_shared_counters_read(&s, i);
}

bool read_histogram(struct content *c, const struct near_region_object *o,
		    struct near_histogram_snapshot *s)
{
	struct near_histogram h;

	if (near_histogram_open_object(&h, &c->region, o)) {
		c->damaged++;
		return false;
	}
	if (near_histogram_read(&h, s))
		out_of_memory();
	return true;
}

/* A directory that is damaged may have several kinds of objects under a name. */
void each_name(struct content *c,
	       void (*take)(struct content *c, const struct near_region_object *o, unsigned count))
{
	unsigned next;

	for (unsigned i = 0; i < c->count; i = next) {
		const struct near_region_object *o = &c->objects[i];

		for (next = i + 1; next < c->count; next++)
			if (strcmp(c->objects[next].name, o->name) != 0)
				break;
		if (o->kind == NEAR_REGION_HISTOGRAM || counters_of(o))
			take(c, o, next - i);
	}
}

void print_name(const struct near_region_object *o, const char *suffix, const char *more,
		const char *value)
{
	printf("%s%s", o->name, suffix);
	if (more || *o->labels)
		printf("{%s", o->labels);
	if (more)
		printf("%s%s=\"%s\"", *o->labels ? "," : "", more, value);
	if (more || *o->labels)
		putchar('}');
}
