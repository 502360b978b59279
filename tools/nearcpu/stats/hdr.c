/* SPDX-License-Identifier: MIT */
/* HdrHistogram's log, version 1.3: one interval histogram a line, encoded as its version 2: counts
 * in order, runs of zeros as one negative number, compressed by zlib, in base64. */
#include "stats/convert.h"

#include "common/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_ZLIB
#include <zlib.h>

#define COOKIE 0x1c849313u
#define COMPRESSED_COOKIE 0x1c849314u
#define GREATEST ((uint64_t)INT64_MAX) /* numbers are signed there */
#define HEADER 40                      /* bytes */
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
static void add_bucket(struct hdr *h, const struct near_snapshot *s, unsigned i)
{
	unsigned precision = precisions[h->digits - 1];
	struct near_range r = near_snapshot_bucket(s, i);
	uint64_t value = r.low > s->max ? r.low : r.low + (r.high - r.low) / 2, bucket;

	if (precision != s->precision && r.low > 0 && r.low <= s->max)
		h->error = fmax(h->error, (double)(r.high - value) / (double)r.low);
	value = value < GREATEST ? value : GREATEST;
	bucket = near__histogram_bucket(value, precision, (uint64_t)1 << precision);
	h->counts[bucket] += s->counts[i];
	h->length = (uint32_t)bucket + 1;
	h->max = value;
}

static bool make_hdr(const struct near_snapshot *s, struct hdr *h)
{
	*h = (struct hdr){.digits = digits_for(s->precision)};
	h->counts = calloc((size_t)64 << precisions[h->digits - 1], sizeof(*h->counts));
	for (unsigned i = 0; h->counts && i < s->buckets; i++)
		if (s->counts[i])
			add_bucket(h, s, i);
	return h->counts;
}

/* ---- encoding ---- */

static unsigned char *put_big_endian(unsigned char *at, uint64_t value, unsigned bytes)
{
	while (bytes--)
		*at++ = (unsigned char)(value >> 8 * bytes);
	return at;
}

/* The sign in the lowest bit, then seven bits a byte, the lowest first; a ninth byte has eight. */
static unsigned char *put_signed(unsigned char *at, int64_t value)
{
	uint64_t left = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
	unsigned bytes = 1;

	for (; left > 127 && bytes < MOST_BYTES; left >>= 7, bytes++)
		*at++ = (unsigned char)(left | 128);
	*at++ = (unsigned char)left;
	return at;
}

static unsigned char *put_counts(unsigned char *at, const struct hdr *h)
{
	int64_t zeros = 0;

	for (uint32_t i = 0; i < h->length; i++) {
		if (!h->counts[i]) {
			zeros++;
			continue;
		}
		if (zeros)
			at = put_signed(at, zeros == 1 ? 0 : -zeros);
		zeros = 0;
		at = put_signed(at, (int64_t)h->counts[i]);
	}
	return at;
}

/* Returns the size; NULL without memory. */
static size_t encode(const struct hdr *h, unsigned char **out)
{
	double ratio = 1; /* of its numbers to ours */
	uint64_t ratio_bits, max = h->max < 2 ? 2 : h->max;
	unsigned char *at, *counts;

	*out = malloc(HEADER + (size_t)h->length * MOST_BYTES * 2);
	if (!*out)
		return 0;
	memcpy(&ratio_bits, &ratio, sizeof(ratio));
	counts = *out + HEADER;
	at = put_counts(counts, h);
	put_big_endian(*out, COOKIE, 4);
	put_big_endian(*out + 4, (uint64_t)(at - counts), 4);
	put_big_endian(*out + 8, 0, 4); /* offset of the first count */
	put_big_endian(*out + 12, h->digits, 4);
	put_big_endian(*out + 16, 1, 8); /* the least value */
	put_big_endian(*out + 24, max, 8);
	put_big_endian(*out + 32, ratio_bits, 8);
	return (size_t)(at - *out);
}

static void print_base64(const unsigned char *data, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < size; i += 3) {
		uint32_t bits = (uint32_t)data[i] << 16;

		bits |= i + 1 < size ? (uint32_t)data[i + 1] << 8 : 0;
		bits |= i + 2 < size ? data[i + 2] : 0;
		putchar(digits[bits >> 18]);
		putchar(digits[bits >> 12 & 63]);
		putchar(i + 1 < size ? digits[bits >> 6 & 63] : '=');
		putchar(i + 2 < size ? digits[bits & 63] : '=');
	}
}

static bool print_compressed(const struct hdr *h)
{
	unsigned char *plain, *packed;
	size_t size = encode(h, &plain);
	uLongf packed_size = compressBound(size);
	bool done;

	packed = malloc(8 + packed_size);
	done = plain && packed && compress(packed + 8, &packed_size, plain, size) == Z_OK;
	if (done) {
		put_big_endian(packed, COMPRESSED_COOKIE, 4);
		put_big_endian(packed + 4, packed_size, 4);
		print_base64(packed, 8 + packed_size);
	}
	free(plain);
	free(packed);
	return done;
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

static bool print_line(struct content *c, const struct near_region_object *o)
{
	double seconds = (double)(stats_now_ns() - c->status.created_ns) / 1e9;
	struct near_snapshot s;
	struct loss loss = {0};
	struct hdr h;
	char text[200];
	bool done = false;

	if (!read_histogram(c, o, &s))
		return c->damaged > 0; /* the rest is printed */
	if (make_hdr(&s, &h)) {
		add_loss(&loss, &s, h.error);
		say_loss(&loss, text, sizeof(text));
		printf("#%s: %s\n", o->name, text);
		print_tag(o);
		printf(",0.000,%.3f,%.3f,", seconds, (double)h.max);
		done = print_compressed(&h);
		putchar('\n');
		free(h.counts);
	}
	near_snapshot_free(&s);
	return done;
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
		if (c->objects[i].kind == NEAR_REGION_HISTOGRAM && !print_line(c, &c->objects[i]))
			return failure("stats", "not enough memory");
	return EXIT_DONE;
}
#else
int print_hdr(struct content *c)
{
	(void)c;
	return failure("stats", "built without zlib (package zlib1g-dev)");
}
#endif
