/* SPDX-License-Identifier: MIT */
/* The values of a region's objects. */
#include "stats/stats.h"

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
	struct near__value v;

	*out = (struct number){.value = counters_of(o) ? counter_value(c, o, i) : 0};
	if (numbers_of(o) > 1)
		snprintf(out->index, sizeof(out->index), "%zu", i);
	if (counters_of(o))
		return true;
	if (!c->self)
		c->self = near__owner_self();
	if (!near__region_value(&c->region, o, i, c->self, &v))
		return false;
	out->value = v.value;
	if (v.pid)
		snprintf(out->pid, sizeof(out->pid), "%" PRIu64, v.pid);
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

static void print_label(const char **before, const char *name, const char *value)
{
	if (!*value)
		return;
	printf("%s%s=\"%s\"", *before, name, value);
	*before = ",";
}

void print_name(const struct near_region_object *o, const struct number *n)
{
	const char *before = *o->labels ? "," : "{";

	printf("%s%s%s", o->name, *o->labels ? "{" : "", o->labels);
	if (n) {
		print_label(&before, "index", n->index);
		print_label(&before, "pid", n->pid);
	}
	if (*before == ',')
		putchar('}');
}
