/* SPDX-License-Identifier: MIT */
#include "check/image.h"

#include <stdlib.h>
#include <string.h>

const struct segment *image_segment(const struct image *image, uint64_t address)
{
	size_t low = 0, high = image->segment_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct segment *s = &image->segments[middle];

		if (address < s->address)
			high = middle;
		else if (address - s->address >= s->size)
			low = middle + 1;
		else
			return s;
	}
	return NULL;
}

bool image_is_code(const struct image *image, uint64_t address)
{
	const struct segment *s = image_segment(image, address);

	return s && s->executable && address - s->address < s->filled;
}

bool image_read(const struct image *image, uint64_t address, void *out, size_t size)
{
	const struct segment *s = image_segment(image, address);
	uint64_t at;

	if (!s || size > s->size - (address - s->address))
		return false;
	at = address - s->address;
	memset(out, 0, size);
	if (at < s->filled)
		memcpy(out, s->data + at, size < s->filled - at ? size : s->filled - at);
	return true;
}

bool image_write(struct image *image, uint64_t address, const void *data, size_t size)
{
	const struct segment *s = image_segment(image, address);
	uint64_t at;

	if (!s)
		return false;
	at = address - s->address;
	if (at >= s->filled || size > s->filled - at)
		return false;
	memcpy(s->data + at, data, size);
	return true;
}

const uint8_t *image_bytes(const struct image *image, uint64_t address, size_t *left)
{
	const struct segment *s = image_segment(image, address);

	if (!s || address - s->address >= s->filled)
		return NULL;
	*left = s->filled - (address - s->address);
	return s->data + (address - s->address);
}

const struct function *image_function(const struct image *image, uint64_t address)
{
	size_t low = 0, high = image->function_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->functions[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* Parts of functions may be functions: the innermost that contains it is not far. */
	for (size_t i = low; i > 0 && low - i < 16; i--)
		if (address < image->functions[i - 1].end)
			return &image->functions[i - 1];
	return NULL;
}

const struct tls_word *image_tls_word(const struct image *image, uint64_t address)
{
	size_t low = 0, high = image->tls_word_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->tls_words[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < image->tls_word_count && image->tls_words[low].address == address
		       ? &image->tls_words[low]
		       : NULL;
}

void image_free(struct image *image)
{
	for (size_t i = 0; i < image->segment_count; i++)
		free(image->segments[i].data);
	for (int i = 0; i < LISTED_KINDS; i++)
		free(image->listed[i]);
	free(image->segments);
	free(image->functions);
	free(image->names);
	free(image->tls_words);
	memset(image, 0, sizeof(*image));
}
