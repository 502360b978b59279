/* SPDX-License-Identifier: MIT */
/* page: what the commands write into pages with scripts: numbers as base64, and JSON. */
#ifndef NEARCPU_PAGE_H
#define NEARCPU_PAGE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

void put_base64(FILE *file, const unsigned char *bytes, size_t size);

/* Bytes that appear as lines of base64. */
struct page_stream {
	FILE *file;
	size_t count;
	unsigned char bytes[3 * 8192];
};

void page_put_byte(struct page_stream *s, unsigned char byte);

/* In groups of 7 bits, the lowest first. */
void page_put_number(struct page_stream *s, uint64_t n);

/* The last line. Only after it the number of bytes need not be a multiple of three. */
void page_flush(struct page_stream *s);

/* JSON within a script element, which no text in it can end: it has "<" in strings alone. Takes the
 * object; NULL: there was no memory. */
void page_put_json(FILE *out, json_t *json);

/* A part of the page that the build made of a file. */
void page_put_part(FILE *out, const char *before, const unsigned char *part);

#endif
