/* SPDX-License-Identifier: MIT */
/* HdrHistogram's log, version 1.3: one interval histogram a line, encoded as its version 2: counts
 * in order, runs of zeros as one negative number, compressed by zlib, in base64. */
#include "base/clock.h"
#include "stats/convert.h"

#include "common/memory.h"
#include "common/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_ZLIB
#include <zlib.h>

#define COOKIE 0x1c849313u
#define COMPRESSED_COOKIE 0x1c849314u
#define GREATEST ((uint64_t)INT64_MAX) /* numbers are signed there */
#define MOST_BYTES 9                   /* of an encoded number */

/* Its buckets are ours with these precisions, for 1 to 3 decimal digits. */
static const unsigned precisions[] = {4, 7, 10};

static unsigned digits_for(unsigned precision)
{
	unsigned digits = 1;

	while (precisions[digits - 1] < precision)
		digits++;
	return digits;
}

struct hdr {
	unsigned digits;
	uint32_t length; /* up to the last that is not 0 */
	uint64_t *counts, max;
	double error;
};

/* The middle of our bucket stands for all of it; the least of what is above the maximum. */
static void add_bucket(struct hdr *h, const struct near_histogram_snapshot *s, unsigned i)
{
	unsigned precision = precisions[h->digits - 1];
	struct near_histogram_range r = near_histogram_snapshot_bucket(s, i);
	uint64_t value = r.low > s->max ? r.low : r.low + (r.high - r.low) / 2, bucket;

	if (precision != s->precision && r.low > 0 && r.low <= s->max)
		h->error = fmax(h->error, (double)(r.high - value) / (double)r.low);
	value = value < GREATEST ? value : GREATEST;
	bucket = near__histogram_bucket(value, precision, (uint64_t)1 << precision);
	h->counts[bucket] += s->counts[i];
	h->length = (uint32_t)bucket + 1;
	h->max = value;
}

static void make_hdr(const struct near_histogram_snapshot *s, struct hdr *h)
{
	*h = (struct hdr){.digits = digits_for(s->precision)};
	h->counts = allocate_zeros((size_t)64 << precisions[h->digits - 1], sizeof(*h->counts));
	for (unsigned i = 0; i < s->buckets; i++)
		if (s->counts[i])
			add_bucket(h, s, i);
}

/* ---- encoding ---- */

static void put_big_endian(FILE *out, uint64_t value, unsigned bytes)
{
	while (bytes--)
		putc((int)(value >> 8 * bytes) & 255, out);
}

/* The sign in the lowest bit, then seven bits a byte, the lowest first; a ninth byte has eight. */
static void put_signed(FILE *out, int64_t value)
{
	uint64_t left = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);

	for (unsigned bytes = 1; left > 127 && bytes < MOST_BYTES; left >>= 7, bytes++)
		putc((int)(left | 128) & 255, out);
	putc((int)left & 255, out);
}

static void put_counts(FILE *out, const struct hdr *h)
{
	int64_t zeros = 0;

	for (uint32_t i = 0; i < h->length; i++) {
		if (!h->counts[i]) {
			zeros++;
			continue;
		}
		if (zeros)
			put_signed(out, zeros == 1 ? 0 : -zeros);
		zeros = 0;
		put_signed(out, (int64_t)h->counts[i]);
	}
}

static void encode(const struct hdr *h, struct memory_file *m)
{
	double ratio = 1; /* of its numbers to ours */
	struct memory_file counts;
	uint64_t ratio_bits;

	put_counts(memory_open(&counts), h);
	memory_close(&counts);
	memcpy(&ratio_bits, &ratio, sizeof(ratio));
	put_big_endian(memory_open(m), COOKIE, 4);
	put_big_endian(m->file, counts.size, 4);
	put_big_endian(m->file, 0, 4); /* offset of the first count */
	put_big_endian(m->file, h->digits, 4);
	put_big_endian(m->file, 1, 8); /* the least value */
	put_big_endian(m->file, h->max < 2 ? 2 : h->max, 8);
	put_big_endian(m->file, ratio_bits, 8);
	fwrite(counts.text, 1, counts.size, m->file);
	memory_close(m);
	free(counts.text);
}

static void print_compressed(const struct hdr *h)
{
	struct memory_file plain, all;
	unsigned char *packed;
	uLongf size;

	encode(h, &plain);
	size = compressBound(plain.size);
	packed = allocate_zeros(size, 1);
	if (compress(packed, &size, (unsigned char *)plain.text, plain.size) != Z_OK)
		out_of_memory();
	put_big_endian(memory_open(&all), COMPRESSED_COOKIE, 4);
	put_big_endian(all.file, size, 4);
	fwrite(packed, 1, size, all.file);
	memory_close(&all);
	put_base64(stdout, (unsigned char *)all.text, all.size);
	free(plain.text);
	free(all.text);
	free(packed);
}

/* ---- the log ---- */

/* A tag has no blanks and no commas. */
static void print_tag(const struct near_region_object *o)
{
	printf("Tag=%s", o->name);
	if (*o->labels)
		putchar('{');
	for (const char *c = o->labels; *c; c++)
		putchar(*c == ',' ? ';' : *c <= ' ' ? '_' : *c);
	if (*o->labels)
		putchar('}');
}

static void print_line(struct content *c, const struct near_region_object *o)
{
	double seconds = (double)(near__clock_ns(CLOCK_REALTIME) - c->status.created_ns) / 1e9;
	struct near_histogram_snapshot s;
	struct loss loss = {0};
	struct hdr h;
	char text[200];

	if (!read_histogram(c, o, &s))
		return;
	make_hdr(&s, &h);
	add_loss(&loss, &s, h.error);
	say_loss(&loss, text, sizeof(text));
	printf("#%s: %s\n", o->name, text);
	print_tag(o);
	printf(",0.000,%.3f,%.3f,", seconds, (double)h.max);
	print_compressed(&h);
	putchar('\n');
	free(h.counts);
	near_histogram_snapshot_free(&s);
}

int print_hdr(struct content *c)
{
	double start = (double)c->status.created_ns / 1e9;

	printf("#[Histogram log format version 1.3]\n");
	printf("#[StartTime: %.3f (seconds since epoch), when the region was made]\n", start);
	printf("#[BaseTime: %.3f (seconds since epoch)]\n", start);
	printf("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
	       "\"Interval_Compressed_Histogram\"\n");
	for (unsigned i = 0; i < c->count; i++)
		if (c->objects[i].kind == NEAR_REGION_HISTOGRAM)
			print_line(c, &c->objects[i]);
	return EXIT_DONE;
}
#else
int print_hdr(struct content *c)
{
	(void)c;
	return failure("stats", "built without zlib (package zlib1g-dev)");
}
#endif
