/* SPDX-License-Identifier: MIT */
/* Values of fields, as text and as JSON. */
#include "trace/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

#define EXACT (UINT64_C(1) << 53) /* integers that every reader of JSON knows exactly */

/* Bytes of the character of UTF-8 there; 0: it is none. */
static unsigned character(const char *s, size_t size)
{
	const unsigned char *c = (const unsigned char *)s;
	unsigned more = c[0] < 0x80 ? 0 : c[0] < 0xe0 ? 1 : c[0] < 0xf0 ? 2 : 3;
	uint32_t point = more ? c[0] & (0x3fu >> more) : c[0];

	if ((c[0] >= 0x80 && c[0] < 0xc2) || c[0] > 0xf4 || more >= size)
		return 0;
	for (unsigned i = 1; i <= more; i++) {
		if (c[i] >> 6 != 2)
			return 0;
		point = point << 6 | (c[i] & 0x3fu);
	}
	if ((more == 2 && point < 0x800) || (more == 3 && point < 0x10000) || point > 0x10ffff ||
	    point >> 11 == 0x1b)
		return 0;
	return more + 1;
}

/* What a terminal or a JSON reader must not see as it is. */
static void print_escaped(FILE *out, unsigned char c, bool is_json)
{
	static const char controls[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
	const char *at = c ? strchr(controls, c) : NULL;

	if (at)
		fprintf(out, "\\%c", letters[at - controls]);
	else if (!is_json)
		fprintf(out, "\\x%02x", c);
	else if (c < 0x80)
		fprintf(out, "\\u%04x", c);
	else
		fputs("\\ufffd", out);
}

void trace_print_string(FILE *out, const char *s, size_t size, enum trace_style style)
{
	putc_unlocked('"', out);
	while (size) {
		unsigned n = character(s, size);
		unsigned char c = (unsigned char)*s;

		/* Controls are also those after 0x7f, of which UTF-8 has two bytes. */
		if (n == 0 || c < ' ' || c == 0x7f || c == '"' || c == '\\' ||
		    (n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0)) {
			print_escaped(out, c, style == TRACE_AS_JSON);
			n = n == 2 && style == TRACE_AS_JSON ? 2 : 1;
		} else {
			fwrite(s, 1, n, out);
		}
		s += n;
		size -= n;
	}
	putc_unlocked('"', out);
}

uint64_t trace_load_unsigned(const char *at, unsigned size)
{
	bool is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	uint64_t value = 0;

	memcpy((char *)&value + (is_little ? 0 : sizeof(value) - size), at, size);
	return value;
}

int64_t trace_load_signed(const char *at, unsigned size)
{
	unsigned unused = 64 - 8 * size;

	return (int64_t)(trace_load_unsigned(at, size) << unused) >> unused;
}

/* The fewest digits from which the same number is read, as the page has it. */
static void print_float(FILE *out, const struct trace_field *f, const char *at, bool is_json)
{
	bool is_small = f->size == sizeof(float);
	int digits = is_small ? 6 : 15, most = is_small ? 9 : 17;
	double value;
	float small;
	char text[40];

	if (is_small) {
		memcpy(&small, at, sizeof(small));
		value = (double)small;
	} else {
		memcpy(&value, at, sizeof(value));
	}
	if (!isfinite(value)) {
		fprintf(out, is_json ? "\"%s\"" : "%s",
			isnan(value) ? "nan"
			: value < 0  ? "-inf"
				     : "inf");
		return;
	}
	do
		snprintf(text, sizeof(text), "%.*g", digits, value);
	while (digits++ < most &&
	       (is_small ? (double)strtof(text, NULL) : strtod(text, NULL)) != value);
	fputs(text, out);
}

static void print_enum(FILE *out, const struct trace_field *f, const char *at, bool is_json)
{
	int64_t value = trace_load_signed(at, f->size);
	const char *quote = is_json ? "\"" : "";

	/* The reader has checked the characters of a label. */
	for (unsigned i = 0; i < f->label_count; i++)
		if (f->labels[i].value == value) {
			fprintf(out, "%s%s%s", quote, f->labels[i].name, quote);
			return;
		}
	fprintf(out, "%" PRId64, value);
}

static void print_one(FILE *out, const struct trace_field *f, const char *at, bool is_json)
{
	uint64_t value = trace_load_unsigned(at, f->size);
	int64_t number = trace_load_signed(at, f->size);
	const char *quote = "";

	switch (f->kind) {
	case TRACE_BOOL:
		fputs(value ? "true" : "false", out);
		break;
	case TRACE_FLOAT:
		print_float(out, f, at, is_json);
		break;
	case TRACE_ENUM:
		print_enum(out, f, at, is_json);
		break;
	case TRACE_HEX:
		fprintf(out, is_json ? "\"%s\"" : "%s",
			f->is_stack ? trace_address(f, value) : word("0x%" PRIx64, value).text);
		break;
	case TRACE_SIGNED:
		quote = is_json && (number > (int64_t)EXACT || number < -(int64_t)EXACT) ? "\""
											 : "";
		fprintf(out, "%s%" PRId64 "%s", quote, number, quote);
		break;
	default:
		quote = is_json && value > EXACT ? "\"" : "";
		fprintf(out, "%s%" PRIu64 "%s", quote, value, quote);
	}
}

void trace_print_value(FILE *out, const struct trace_field *f, const struct trace_value *v,
		       enum trace_style style)
{
	bool is_json = style == TRACE_AS_JSON;

	if (f->kind == TRACE_STRING) {
		trace_print_string(out, v->data, v->count, style);
	} else if (f->kind == TRACE_BYTES) {
		putc_unlocked('"', out);
		for (uint32_t i = 0; i < v->count; i++)
			fprintf(out, "%02x", (unsigned char)v->data[i]);
		putc_unlocked('"', out);
	} else if (!f->counted) {
		print_one(out, f, v->data, is_json);
	} else {
		putc_unlocked('[', out);
		for (uint32_t i = 0; i < v->count; i++) {
			if (i)
				putc_unlocked(',', out);
			print_one(out, f, v->data + (size_t)i * f->size, is_json);
		}
		putc_unlocked(']', out);
	}
}

void trace_print_seconds(FILE *out, uint64_t ns)
{
	fprintf(out, "%" PRIu64 ".%09u", ns / 1000000000, (unsigned)(ns % 1000000000));
}
