/* SPDX-License-Identifier: MIT */
/* The data of pages with scripts. */
#include "common/page.h"

#include "common/tool.h"

void put_base64(FILE *file, const unsigned char *bytes, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < size; i += 3) {
		size_t left = size - i;
		uint32_t bits = (uint32_t)bytes[i] << 16;

		bits |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
		bits |= left > 2 ? bytes[i + 2] : 0;
		putc_unlocked(digits[bits >> 18], file);
		putc_unlocked(digits[bits >> 12 & 63], file);
		putc_unlocked(left > 1 ? digits[bits >> 6 & 63] : '=', file);
		putc_unlocked(left > 2 ? digits[bits & 63] : '=', file);
	}
}

void page_flush(struct page_stream *s)
{
	put_base64(s->file, s->bytes, s->count);
	putc_unlocked('\n', s->file);
	s->count = 0;
}

void page_put_byte(struct page_stream *s, unsigned char byte)
{
	s->bytes[s->count++] = byte;
	if (s->count == sizeof(s->bytes))
		page_flush(s);
}

void page_put_number(struct page_stream *s, uint64_t n)
{
	for (; n >= 0x80; n >>= 7)
		page_put_byte(s, (unsigned char)(n | 0x80));
	page_put_byte(s, (unsigned char)n);
}

static int put_escaped(const char *text, size_t size, void *out)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] == '<')
			fputs("\\u003c", out);
		else
			putc_unlocked(text[i], out);
	return 0;
}

void page_put_json(FILE *out, json_t *json)
{
	if (!json)
		out_of_memory();
	json_dump_callback(json, put_escaped, out, JSON_COMPACT);
	json_decref(json);
}

void page_put_part(FILE *out, const char *before, const unsigned char *part)
{
	fprintf(out, "%s%s", before, (const char *)part);
}
