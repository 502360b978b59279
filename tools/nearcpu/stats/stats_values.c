/* SPDX-License-Identifier: MIT */
/* The values of a region's objects. */
#include "stats/stats.h"

#include "common/text.h"
#include "region/region.h"

#include <inttypes.h>
#include <string.h>

static size_t counters_of(const struct near_region_object *o)
{
	return o->kind == NEAR_REGION_COUNTERS && !o->flags ? o->size / sizeof(int64_t) : 0;
}

static int64_t counter_value(struct content *c, const struct near_region_object *o, size_t i)
{
	struct near_shared_counters s;

	return near_shared_counters_open_object(&s, &c->region, o)
		       ? 0
		       : near_shared_counters_read(&s, i);
}

size_t numbers_of(const struct near_region_object *o)
{
	return counters_of(o) + near__region_values(o);
}

bool is_gauge(const struct near_region_object *o)
{
	return near__region_values(o) && o->about[NEAR_REGION_ABOUT_GAUGE];
}

bool read_number(struct content *c, const struct near_region_object *o, size_t i,
		 struct number *out)
{
	struct near__value v = {0};
	struct text labels = {out->labels, sizeof(out->labels)};

	c->self = c->self ? c->self : near__owner_self();
	if (counters_of(o))
		v.value = counter_value(c, o, i);
	else if (!near__region_value(&c->region, o, i, c->self, &v))
		return false;
	*out = (struct number){.value = v.value, .pid = v.pid};
	say(&labels, "%s", o->labels);
	if (numbers_of(o) > 1)
		say(&labels, "%sindex=\"%zu\"", *o->labels ? "," : "", i);
	if (v.pid)
		say(&labels, ",pid=\"%" PRIu64 "\"", v.pid);
	return true;
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
		if (o->kind == NEAR_REGION_HISTOGRAM || numbers_of(o))
			take(c, o, next - i);
	}
}

void print_name(const char *name, const char *labels)
{
	printf(*labels ? "%s{%s}" : "%s", name, labels);
}
