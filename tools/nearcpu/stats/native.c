/* SPDX-License-Identifier: MIT */
/* Prometheus' exposition format in protocol buffers (io.prometheus.client.MetricFamily, each behind
 * its length), with native histograms: its text format has none. A message within another needs
 * its length before it: each is written to memory first. */
#include "stats/convert.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SCALE 8 /* of Prometheus' schemas */
#define FEW_ZEROS 2  /* empty buckets that are cheaper than a new span */

enum wire { VARINT, EIGHT_BYTES, BYTES };

/* Numbers of fields, as metrics.proto of Prometheus' client_model has them. */
enum { FAMILY_NAME = 1, FAMILY_HELP, FAMILY_TYPE, FAMILY_METRIC };
enum { METRIC_LABEL = 1, METRIC_COUNTER = 3, METRIC_HISTOGRAM = 7 };
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
enum { TYPE_COUNTER = 0, TYPE_HISTOGRAM = 4 };

/* ---- messages ---- */

struct message {
	FILE *file;
	char *data;
	size_t size;
};

static bool begin(struct message *m)
{
	m->file = open_memstream(&m->data, &m->size);
	return m->file;
}

static void put_varint(FILE *f, uint64_t value)
{
	for (; value > 127; value >>= 7)
		putc((int)(value | 128) & 255, f);
	putc((int)value, f);
}

static void put_number(FILE *f, unsigned field, uint64_t value)
{
	put_varint(f, field << 3 | VARINT);
	put_varint(f, value);
}

/* A sint: small ones of either sign are short. */
static void put_signed(FILE *f, unsigned field, int64_t value)
{
	put_number(f, field, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void put_double(FILE *f, unsigned field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put_varint(f, field << 3 | EIGHT_BYTES);
	for (unsigned i = 0; i < 64; i += 8)
		putc((int)(bits >> i) & 255, f);
}

static void put_bytes(FILE *f, unsigned field, const char *data, size_t size)
{
	put_varint(f, field << 3 | BYTES);
	put_varint(f, size);
	fwrite(data, 1, size, f);
}

static void put_text(FILE *f, unsigned field, const char *text)
{
	put_bytes(f, field, text, strlen(text));
}

/* Ends m, and puts it into f; field 0: only its length comes before it. */
static void put_message(FILE *f, unsigned field, struct message *m)
{
	fclose(m->file);
	if (field)
		put_bytes(f, field, m->data, m->size);
	else if (m->data) {
		put_varint(f, m->size);
		fwrite(m->data, 1, m->size, f);
	}
	free(m->data);
}

/* ---- histograms ---- */

static bool put_span(FILE *f, int offset, unsigned length)
{
	struct message m;

	if (!begin(&m))
		return false;
	put_signed(m.file, SPAN_OFFSET, offset);
	put_number(m.file, SPAN_LENGTH, length);
	put_message(f, HISTOGRAM_SPAN, &m);
	return true;
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
static bool put_buckets(FILE *f, const struct exponential *e)
{
	unsigned begins = 0, ends, after = 0;
	uint64_t before = 0; /* a damaged region may have any counts */

	if (!e->length)
		return put_span(f, 0, 0);
	for (; begins < e->length; after = ends, begins = skip_zeros(e, ends)) {
		int first = after ? (int)(begins - after) : e->first + 1;

		ends = end_of_run(e, begins);
		if (!put_span(f, first, ends - begins))
			return false;
	}
	for (begins = 0; begins < e->length; begins = skip_zeros(e, ends)) {
		ends = end_of_run(e, begins);
		for (unsigned i = begins; i < ends; i++) {
			put_signed(f, HISTOGRAM_DELTA, (int64_t)(e->counts[i] - before));
			before = e->counts[i];
		}
	}
	return true;
}

static bool put_histogram(FILE *f, const struct near_snapshot *s, const struct exponential *e)
{
	struct message m;
	bool done;

	if (!begin(&m))
		return false;
	put_number(m.file, HISTOGRAM_COUNT, s->count);
	put_double(m.file, HISTOGRAM_SUM, s->sum);
	put_signed(m.file, HISTOGRAM_SCHEMA, e->scale);
	put_double(m.file, HISTOGRAM_ZERO_THRESHOLD, 0);
	put_number(m.file, HISTOGRAM_ZEROS, e->zeros);
	done = put_buckets(m.file, e);
	put_message(f, METRIC_HISTOGRAM, &m);
	return done;
}

/* ---- metrics ---- */

static bool put_label(FILE *f, const char *name, const char *value)
{
	struct message m;

	if (!begin(&m))
		return false;
	put_text(m.file, LABEL_NAME, name);
	put_text(m.file, LABEL_VALUE, value);
	put_message(f, METRIC_LABEL, &m);
	return true;
}

static bool put_labels(FILE *f, const struct near_region_object *o)
{
	const char *rest = o->labels;
	struct label label;
	bool done = true;

	while (done && (rest = next_label(rest, &label)))
		done = put_label(f, label.name, label.value);
	return done;
}

static bool put_counter(FILE *f, struct content *c, const struct near_region_object *o, size_t i)
{
	struct message m, counter;
	char index[24];
	bool done;

	if (!begin(&m))
		return false;
	snprintf(index, sizeof(index), "%zu", i);
	done = put_labels(m.file, o) &&
	       (counters_of(o) == 1 || put_label(m.file, "index", index)) && begin(&counter);
	if (done) {
		put_double(counter.file, COUNTER_VALUE, (double)counter_value(c, o, i));
		put_message(m.file, METRIC_COUNTER, &counter);
	}
	put_message(f, FAMILY_METRIC, &m);
	return done;
}

static bool put_histogram_metric(FILE *f, struct content *c, const struct near_region_object *o,
				 struct loss *loss)
{
	struct near_snapshot s;
	struct exponential e;
	struct message m;
	bool done = false;

	if (!read_histogram(c, o, &s))
		return c->damaged > 0; /* the rest is printed */
	if (make_exponential(&s, MOST_SCALE, c->buckets, &e)) {
		if (begin(&m)) {
			done = put_labels(m.file, o) && put_histogram(m.file, &s, &e);
			put_message(f, FAMILY_METRIC, &m);
		}
		add_loss(loss, &s, e.error);
		free(e.counts);
	}
	near_snapshot_free(&s);
	return done;
}

static bool put_object(FILE *f, struct content *c, const struct near_region_object *o,
		       struct loss *loss)
{
	bool done = true;

	if (o->kind == NEAR_REGION_HISTOGRAM)
		return put_histogram_metric(f, c, o, loss);
	for (size_t i = 0; i < counters_of(o) && done; i++)
		done = put_counter(f, c, o, i);
	return done;
}

/* Of the objects from *i on that have one name. */
static bool put_family(struct content *c, unsigned *i)
{
	const struct near_region_object *first = &c->objects[*i];
	bool is_histogram = first->kind == NEAR_REGION_HISTOGRAM, done = true;
	struct loss loss = {0};
	struct message m;
	char help[200] = "";

	if (!begin(&m))
		return false;
	put_text(m.file, FAMILY_NAME, first->name);
	put_number(m.file, FAMILY_TYPE, is_histogram ? TYPE_HISTOGRAM : TYPE_COUNTER);
	for (; done && *i < c->count && strcmp(c->objects[*i].name, first->name) == 0; ++*i)
		done = put_object(m.file, c, &c->objects[*i], &loss);
	if (is_histogram)
		say_loss(&loss, help, sizeof(help));
	put_text(m.file, FAMILY_HELP, help);
	put_message(stdout, 0, &m);
	return done;
}

bool print_native(struct content *c)
{
	bool done = true;

	for (unsigned i = 0; done && i < c->count;)
		if (c->objects[i].kind == NEAR_REGION_HISTOGRAM || counters_of(&c->objects[i]))
			done = put_family(c, &i);
		else
			i++;
	return done;
}
