/* SPDX-License-Identifier: MIT */
/* convert: histograms as other programs write them, and the forms that have them. */
#ifndef NEARCPU_TOOL_CONVERT_H
#define NEARCPU_TOOL_CONVERT_H

#include "stats/stats.h"

struct label {
	char name[NEAR_REGION_LABELS], value[NEAR_REGION_LABELS];
};

/* Reads the first label of a list, its escapes resolved. Returns the rest; NULL: there is none. */
const char *next_label(const char *labels, struct label *out);

/* Exponential buckets: each power of two is divided into 2^scale, whose bounds are powers of one
 * number. Bucket i has what is above 2^(i / 2^scale), up to and with 2^((i + 1) / 2^scale). */
struct exponential {
	int scale;
	int first; /* number of the first bucket below */
	unsigned length;
	uint64_t *counts;
	uint64_t zeros;
	/* How far from its bucket a value may be, in proportion, as the middle of a log-linear
	 * bucket stands for all of it. Those above the maximum, which count as the next number, are
	 * left out. */
	double error;
};

/* Prometheus' least. There are five buckets with it. */
#define LEAST_SCALE (-4)

/* With the scale that is the precision, `most` at most, or a smaller one where that has more than
 * `buckets`, 5 at least. The caller frees e->counts. */
void make_exponential(const struct near_histogram_snapshot *s, int most, unsigned buckets,
		      struct exponential *e);

/* What the conversion of some histograms lost; all 0 at first. */
struct loss {
	double width;   /* of the widest bucket, in proportion */
	double error;   /* as above */
	uint64_t above; /* values above a maximum */
};

void add_loss(struct loss *loss, const struct near_histogram_snapshot *s, double error);

/* Writes it as a sentence. */
void say_loss(const struct loss *loss, char *out, size_t size);

/* HdrHistogram's log, version 1.3. An exit status. */
int print_hdr(struct content *c);

/* OpenTelemetry's OTLP in JSON, a request to export metrics. NULL without memory. */
json_t *region_otlp(struct content *c);

/* Prometheus' protocol buffers, each message behind its length. */
void print_native(struct content *c);

#endif
