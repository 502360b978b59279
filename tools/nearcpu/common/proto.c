/* SPDX-License-Identifier: MIT */
/* The wire format of protocol buffers. */
#include "common/proto.h"

#include <stdlib.h>
#include <string.h>

enum wire { VARINT, EIGHT_BYTES, BYTES };

static void put_varint(FILE *f, uint64_t value)
{
	for (; value > 127; value >>= 7)
		putc((int)(value | 128) & 255, f);
	putc((int)value, f);
}

void proto_put_number(FILE *f, unsigned field, uint64_t value)
{
	put_varint(f, field << 3 | VARINT);
	put_varint(f, value);
}

void proto_put_signed(FILE *f, unsigned field, int64_t value)
{
	proto_put_number(f, field, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

void proto_put_fixed(FILE *f, unsigned field, uint64_t value)
{
	put_varint(f, field << 3 | EIGHT_BYTES);
	for (unsigned i = 0; i < 64; i += 8)
		putc((int)(value >> i) & 255, f);
}

void proto_put_double(FILE *f, unsigned field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	proto_put_fixed(f, field, bits);
}

void proto_put_bytes(FILE *f, unsigned field, const char *bytes, size_t size)
{
	put_varint(f, field << 3 | BYTES);
	put_varint(f, size);
	fwrite(bytes, 1, size, f);
}

void proto_put_text(FILE *f, unsigned field, const char *text)
{
	proto_put_bytes(f, field, text, strlen(text));
}

void proto_put_message(FILE *f, unsigned field, struct memory_file *m)
{
	memory_close(m);
	if (field)
		put_varint(f, field << 3 | BYTES);
	put_varint(f, m->size);
	fwrite(m->text, 1, m->size, f);
	free(m->text);
}
