/* SPDX-License-Identifier: MIT */
/* Prometheus' exposition format in protocol buffers (io.prometheus.client.MetricFamily, each behind
 * its length), with native histograms: its text format has none. */
#include "common/proto.h"
#include "common/text.h"
#include "stats/convert.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SCALE 8 /* of Prometheus' schemas */
#define FEW_ZEROS 2  /* empty buckets that are cheaper than a new span */

/* Numbers of fields, as metrics.proto of Prometheus' client_model has them. */
enum { FAMILY_NAME = 1, FAMILY_HELP, FAMILY_TYPE, FAMILY_METRIC };
enum { METRIC_LABEL = 1, METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM = 7 };
enum { LABEL_NAME = 1, LABEL_VALUE };
enum { COUNTER_VALUE = 1 };
enum {
	HISTOGRAM_COUNT = 1,
	HISTOGRAM_SUM = 2,
	HISTOGRAM_SCHEMA = 5,
	HISTOGRAM_ZERO_THRESHOLD = 6,
	HISTOGRAM_ZEROS = 7,
	HISTOGRAM_SPAN = 12,
	HISTOGRAM_DELTA = 13,
};
enum { SPAN_OFFSET = 1, SPAN_LENGTH };
enum { TYPE_COUNTER = 0, TYPE_GAUGE = 1, TYPE_HISTOGRAM = 4 };

/* ---- histograms ---- */

static void put_span(FILE *f, int offset, unsigned length)
{
	struct memory_file m;

	proto_put_signed(memory_open(&m), SPAN_OFFSET, offset);
	proto_put_number(m.file, SPAN_LENGTH, length);
	proto_put_message(f, HISTOGRAM_SPAN, &m);
}

/* The first of the buckets from i on that has a count, or e->length. */
static unsigned skip_zeros(const struct exponential *e, unsigned i)
{
	while (i < e->length && !e->counts[i])
		i++;
	return i;
}

/* Where a run of buckets that begins at i ends. */
static unsigned end_of_run(const struct exponential *e, unsigned i)
{
	unsigned next;

	for (; i < e->length; i = next) {
		next = skip_zeros(e, i);
		if (next - i > FEW_ZEROS || next == e->length)
			break;
		next++;
	}
	return i;
}

/* Spans and counts, each as the difference to the one before. Prometheus numbers a bucket by its
 * upper bound. A histogram without values has an empty span, by which it is known as native. */
static void put_buckets(FILE *f, const struct exponential *e)
{
	unsigned begins = 0, ends, after = 0;
	uint64_t before = 0; /* a damaged region may have any counts */

	if (!e->length)
		put_span(f, 0, 0);
	for (; begins < e->length; after = ends, begins = skip_zeros(e, ends)) {
		ends = end_of_run(e, begins);
		put_span(f, after ? (int)(begins - after) : e->first + 1, ends - begins);
	}
	for (begins = 0; begins < e->length; begins = skip_zeros(e, ends)) {
		ends = end_of_run(e, begins);
		for (unsigned i = begins; i < ends; i++) {
			proto_put_signed(f, HISTOGRAM_DELTA, (int64_t)(e->counts[i] - before));
			before = e->counts[i];
		}
	}
}

static void put_histogram(FILE *f, const struct near_histogram_snapshot *s,
			  const struct exponential *e)
{
	struct memory_file m;

	proto_put_number(memory_open(&m), HISTOGRAM_COUNT, s->count);
	proto_put_double(m.file, HISTOGRAM_SUM, s->sum);
	proto_put_signed(m.file, HISTOGRAM_SCHEMA, e->scale);
	proto_put_double(m.file, HISTOGRAM_ZERO_THRESHOLD, 0);
	proto_put_number(m.file, HISTOGRAM_ZEROS, e->zeros);
	put_buckets(m.file, e);
	proto_put_message(f, METRIC_HISTOGRAM, &m);
}

/* ---- metrics ---- */

static void put_label(FILE *f, const char *name, const char *value)
{
	struct memory_file m;

	proto_put_text(memory_open(&m), LABEL_NAME, name);
	proto_put_text(m.file, LABEL_VALUE, value);
	proto_put_message(f, METRIC_LABEL, &m);
}

static void put_labels(FILE *f, const char *labels)
{
	struct label label;

	while ((labels = next_label(labels, &label)))
		put_label(f, label.name, label.value);
}

/* A counter's message and a gauge's have their value as the same field. */
static void put_number(FILE *f, struct content *c, const struct near_region_object *o, size_t i)
{
	struct memory_file m, value;
	struct number n;

	if (!read_number(c, o, i, &n))
		return;
	put_labels(memory_open(&m), n.labels);
	proto_put_double(memory_open(&value), COUNTER_VALUE, (double)n.value);
	proto_put_message(m.file, is_gauge(o) ? METRIC_GAUGE : METRIC_COUNTER, &value);
	proto_put_message(f, FAMILY_METRIC, &m);
}

static void put_histogram_metric(FILE *f, struct content *c, const struct near_region_object *o,
				 struct loss *loss)
{
	struct near_histogram_snapshot s;
	struct exponential e;
	struct memory_file m;

	if (!read_histogram(c, o, &s))
		return;
	make_exponential(&s, MOST_SCALE, c->buckets, &e);
	put_labels(memory_open(&m), o->labels);
	put_histogram(m.file, &s, &e);
	proto_put_message(f, FAMILY_METRIC, &m);
	add_loss(loss, &s, e.error);
	free(e.counts);
	near_histogram_snapshot_free(&s);
}

static void put_object(FILE *f, struct content *c, const struct near_region_object *o,
		       struct loss *loss)
{
	if (o->kind == NEAR_REGION_HISTOGRAM)
		put_histogram_metric(f, c, o, loss);
	for (size_t i = 0; i < numbers_of(o); i++)
		put_number(f, c, o, i);
}

static void put_family(struct content *c, const struct near_region_object *o, unsigned count)
{
	bool is_histogram = o->kind == NEAR_REGION_HISTOGRAM;
	struct loss loss = {0};
	struct memory_file m;
	char help[200] = "";

	proto_put_text(memory_open(&m), FAMILY_NAME, o->name);
	proto_put_number(m.file, FAMILY_TYPE,
			 is_histogram  ? TYPE_HISTOGRAM
			 : is_gauge(o) ? TYPE_GAUGE
				       : TYPE_COUNTER);
	for (unsigned i = 0; i < count; i++)
		put_object(m.file, c, &o[i], &loss);
	if (is_histogram)
		say_loss(&loss, help, sizeof(help));
	proto_put_text(m.file, FAMILY_HELP, help);
	proto_put_message(stdout, 0, &m);
}

void print_native(struct content *c)
{
	each_name(c, put_family);
}
