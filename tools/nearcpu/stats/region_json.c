/* SPDX-License-Identifier: MIT */
/* nearcpu stats as JSON. */
#include "common/memory.h"
#include "stats/convert.h"

#include <stdlib.h>

/* null: it is damaged. */
static json_t *histogram_json(struct content *c, const struct near_region_object *o)
{
	struct near_histogram_snapshot s;
	json_t *json;
	size_t size;
	char *text;

	if (!read_histogram(c, o, &s))
		return json_null();
	size = (size_t)near_histogram_snapshot_json(&s, NULL, 0) + 1;
	text = allocate_zeros(size, 1);
	near_histogram_snapshot_json(&s, text, size);
	json = json_loads(text, 0, NULL);
	/* jansson's integers are signed. */
	if (!json)
		json = json_loads(text, JSON_DECODE_INT_AS_REAL, NULL);
	free(text);
	near_histogram_snapshot_free(&s);
	return json;
}

static json_t *labels_json(const struct near_region_object *o)
{
	const char *rest = o->labels;
	json_t *json = json_object();
	struct label l;

	while ((rest = next_label(rest, &l)))
		json_object_set_new(json, l.name, json_string(l.value));
	return json;
}

/* Of counters all; of values those that there are, with their places and owners. */
static json_t *numbers_json(struct content *c, const struct near_region_object *o)
{
	json_t *values = json_array(), *value;
	struct number n;

	for (size_t i = 0; i < numbers_of(o); i++) {
		if (!read_number(c, o, i, &n))
			continue;
		value = json_integer(n.value);
		if (o->kind == NEAR_REGION_VALUES)
			value = json_pack("{s:I, s:o, s:o}", "index", (json_int_t)i, "pid",
					  n.pid ? json_integer((json_int_t)n.pid) : json_null(),
					  "value", value);
		json_array_append_new(values, value);
	}
	return values;
}

static json_t *object_json(struct content *c, const struct near_region_object *o)
{
	const char *kind = o->kind == NEAR_REGION_HISTOGRAM ? "histogram"
			   : is_gauge(o)                    ? "gauges"
			   : numbers_of(o)                  ? "counters"
							    : "bytes";
	json_t *json = json_pack("{s:s, s:o, s:s, s:I, s:b}", "name", o->name, "labels",
				 labels_json(o), "kind", kind, "size", (json_int_t)o->size, "once",
				 (int)(o->flags & NEAR_REGION_COMMON));

	if (numbers_of(o))
		json_object_set_new(json, o->kind == NEAR_REGION_VALUES ? "places" : "values",
				    numbers_json(c, o));
	if (o->kind == NEAR_REGION_HISTOGRAM)
		json_object_set_new(json, "histogram", histogram_json(c, o));
	return json;
}

json_t *region_json(struct content *c)
{
	const struct near_region_stats *s = &c->status;
	json_t *objects = json_array();

	for (unsigned i = 0; i < c->count; i++)
		json_array_append_new(objects, object_json(c, &c->objects[i]));
	return json_pack("{s:I, s:s, s:I, s:i, s:i, s:i, s:I, s:I, s:I, s:o}", "created_ns",
			 (json_int_t)s->created_ns, "program", s->program, "process",
			 (json_int_t)s->creator, "cpus", (int)s->cpus_used, "possible_cpus",
			 (int)s->cpus, "fallbacks", (int)s->fallbacks_used, "size",
			 (json_int_t)c->region.size, "allocated", (json_int_t)s->allocated, "total",
			 (json_int_t)s->total, "objects", objects);
}
