/* SPDX-License-Identifier: MIT */
/* OpenTelemetry's protocol in JSON: what a collector takes by HTTP at /v1/metrics. Integers of 64
 * bits are strings there. */
#include "common/text.h"
#include "base/clock.h"
#include "stats/convert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CUMULATIVE 2
#define MOST_SCALE 20

static json_t *integer(uint64_t value)
{
	return json_sprintf("%" PRIu64, value);
}

static json_t *attribute(const char *name, const char *value)
{
	return json_pack("{s:s, s:{s:s}}", "key", name, "value", "stringValue", value);
}

static json_t *attributes_of(const char *labels)
{
	json_t *all = json_array();
	struct label label;

	while ((labels = next_label(labels, &label)))
		json_array_append_new(all, attribute(label.name, label.value));
	return all;
}

/* Since the region was made, or since a reset that the receiver recognizes by smaller counts. */
static json_t *point(const struct content *c, json_t *attributes)
{
	return json_pack("{s:o, s:o, s:o}", "attributes", attributes, "startTimeUnixNano",
			 integer(c->status.created_ns), "timeUnixNano",
			 integer(near__clock_ns(CLOCK_REALTIME)));
}

static void add_numbers(struct content *c, const struct near_region_object *o, json_t *points)
{
	struct number n;

	for (size_t i = 0; i < numbers_of(o); i++)
		if (read_number(c, o, i, &n)) {
			json_t *p = point(c, attributes_of(n.labels));

			json_object_set_new(p, "asInt", json_sprintf("%" PRId64, n.value));
			json_array_append_new(points, p);
		}
}

static json_t *counts_of(const struct exponential *e)
{
	json_t *counts = json_array();

	for (unsigned i = 0; i < e->length; i++)
		json_array_append_new(counts, integer(e->counts[i]));
	return json_pack("{s:i, s:o}", "offset", e->first, "bucketCounts", counts);
}

static void add_histogram(struct content *c, const struct near_region_object *o, json_t *points,
			  struct loss *loss)
{
	struct near_histogram_snapshot s;
	struct exponential e;
	json_t *p, *rest;

	if (!read_histogram(c, o, &s))
		return;
	make_exponential(&s, MOST_SCALE, c->buckets, &e);
	p = point(c, attributes_of(o->labels));
	rest = json_pack("{s:o, s:f, s:i, s:o, s:f, s:o}", "count", integer(s.count), "sum", s.sum,
			 "scale", e.scale, "zeroCount", integer(e.zeros), "zeroThreshold", 0.,
			 "positive", counts_of(&e));
	if (s.count)
		json_object_update_new(rest,
				       json_pack("{s:f, s:f}", "min",
						 (double)near_histogram_snapshot_min(&s).low, "max",
						 (double)near_histogram_snapshot_max(&s).high));
	json_object_update_new(p, rest);
	json_array_append_new(points, p);
	add_loss(loss, &s, e.error);
	free(e.counts);
	near_histogram_snapshot_free(&s);
}

/* A unit as OpenTelemetry writes it, by the end of the name. */
static const char *unit_of(const char *name)
{
	return strstr(name, "_bytes") ? "By" : strstr(name, "_seconds") ? "s" : "";
}

/* A program may subtract from counters, but not from values that are no gauges. */
static json_t *data_of(const struct near_region_object *o, json_t *points)
{
	json_t *data = json_pack("{s:o}", "dataPoints", points);

	if (!is_gauge(o))
		json_object_set_new(data, "aggregationTemporality", json_integer(CUMULATIVE));
	if (!is_gauge(o) && o->kind != NEAR_REGION_HISTOGRAM)
		json_object_set_new(data, "isMonotonic",
				    json_boolean(o->kind == NEAR_REGION_VALUES));
	return data;
}

static void add_metric(struct content *c, const struct near_region_object *o, unsigned count)
{
	bool is_histogram = o->kind == NEAR_REGION_HISTOGRAM;
	json_t *points = json_array(), *metric;
	struct loss loss = {0};
	char description[200] = "";

	for (unsigned i = 0; i < count; i++)
		if (is_histogram)
			add_histogram(c, &o[i], points, &loss);
		else
			add_numbers(c, &o[i], points);
	if (is_histogram)
		say_loss(&loss, description, sizeof(description));
	metric = json_pack("{s:s, s:s, s:o}", "name", o->name, "description", description,
			   is_histogram  ? "exponentialHistogram"
			   : is_gauge(o) ? "gauge"
					 : "sum",
			   data_of(o, points));
	if (o->kind == NEAR_REGION_VALUES)
		json_object_set_new(metric, "unit", json_string(unit_of(o->name)));
	json_array_append_new(c->metrics, metric);
}

json_t *region_otlp(struct content *c)
{
	struct word pid = word("%" PRIu64, c->status.creator);
	json_t *scope, *resource;

	c->metrics = json_array();
	each_name(c, add_metric);
	scope = json_pack("{s:{s:s, s:s}, s:o}", "scope", "name", "nearcpu", "version",
			  NEARCPU_VERSION, "metrics", c->metrics);
	resource = json_pack("[o, {s:s, s:{s:s}}]", attribute("service.name", c->status.program),
			     "key", "process.pid", "value", "intValue", pid.text);
	return json_pack("{s:[{s:{s:o}, s:[o]}]}", "resourceMetrics", "resource", "attributes",
			 resource, "scopeMetrics", scope);
}
