/* SPDX-License-Identifier: MIT */
/* The data of pages with scripts. */
#include "common/page.h"

void page_flush(struct page_stream *s)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char text[sizeof(s->bytes) / 3 * 4], *out = text;

	for (size_t i = 0; i < s->count; i += 3, out += 4) {
		size_t left = s->count - i;
		uint32_t bits = (uint32_t)s->bytes[i] << 16;

		bits |= left > 1 ? (uint32_t)s->bytes[i + 1] << 8 : 0;
		bits |= left > 2 ? s->bytes[i + 2] : 0;
		out[0] = digits[bits >> 18];
		out[1] = digits[bits >> 12 & 63];
		out[2] = (char)(left > 1 ? digits[bits >> 6 & 63] : '=');
		out[3] = (char)(left > 2 ? digits[bits & 63] : '=');
	}
	fwrite(text, 1, (size_t)(out - text), s->file);
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

void page_put_json(FILE *out, const char *json, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (json[i] == '<')
			fputs("\\u003c", out);
		else
			putc_unlocked(json[i], out);
}

void page_put_part(FILE *out, const char *before, const unsigned char *part)
{
	fprintf(out, "%s%s", before, (const char *)part);
}
