/* SPDX-License-Identifier: MIT */
/* The values of a region's objects. */
#include "stats/stats.h"

size_t counters_of(const struct near_region_object *o)
{
	return o->kind == NEAR_REGION_COUNTERS && !o->flags ? o->size / sizeof(int64_t) : 0;
}

int64_t counter_value(struct content *c, const struct near_region_object *o, size_t i)
{
	struct near_shared s;

	return near_shared_use(&s, &c->region, o) ? 0 : near_shared_read(&s, i * sizeof(int64_t));
}

bool read_histogram(struct content *c, const struct near_region_object *o, struct near_snapshot *s)
{
	struct near_histogram h;

	if (near_histogram_use(&h, &c->region, o)) {
		c->damaged++;
		return false;
	}
	return near_histogram_read(&h, s) == 0;
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
