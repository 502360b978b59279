/* SPDX-License-Identifier: MIT */
/* Access to the memory that an ELF file describes. */
#include "check/image.h"

#include "check/array.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

const struct cpu_facts cpu_facts[CPUS] = {
	[CPU_X86_64] = {"x86_64", EM_X86_64, 0x53053053, 1, 4, -1, 0xf038},
	[CPU_AARCH64] = {"aarch64", EM_AARCH64, 0xd428bc00, 4, 31, -1, 0xbff80000},
	[CPU_RISCV64] = {"riscv64", EM_RISCV, 0xf1401073, 2, 2, 4, 0x0ffc031c},
};

const struct segment *image_segment(const struct image *image, uint64_t address)
{
	size_t n = array_find(image->segments, image->segment_count, sizeof(*image->segments),
			      address);
	const struct segment *s = n ? &image->segments[n - 1] : NULL;

	return s && address - s->address < s->size ? s : NULL;
}

uint8_t *image_bytes(const struct image *image, uint64_t address, size_t *left)
{
	const struct segment *s = image_segment(image, address);

	if (!s || address - s->address >= s->filled)
		return NULL;
	*left = s->filled - (address - s->address);
	return s->data + (address - s->address);
}

bool image_is_code(const struct image *image, uint64_t address)
{
	const struct segment *s = image_segment(image, address);

	return s && s->executable && address - s->address < s->filled;
}

bool image_read(const struct image *image, uint64_t address, void *out, size_t size)
{
	const struct segment *s = image_segment(image, address);
	size_t left = 0;
	const uint8_t *bytes = image_bytes(image, address, &left);

	if (!s || size > s->size - (address - s->address))
		return false;
	memset(out, 0, size);
	if (bytes)
		memcpy(out, bytes, size < left ? size : left);
	return true;
}

bool image_write(struct image *image, uint64_t address, const void *data, size_t size)
{
	size_t left = 0;
	uint8_t *bytes = image_bytes(image, address, &left);

	if (!bytes || size > left)
		return false;
	memcpy(bytes, data, size);
	return true;
}

const struct function *image_function(const struct image *image, uint64_t address)
{
	size_t n = array_find(image->functions, image->function_count, sizeof(*image->functions),
			      address);

	/* Functions may lie in others: the innermost that contains the address is not far. */
	for (size_t i = n; i > 0 && n - i < 16; i--)
		if (address < image->functions[i - 1].end)
			return &image->functions[i - 1];
	return NULL;
}

const struct tls_word *image_tls_word(const struct image *image, uint64_t address)
{
	size_t n = array_find(image->tls_words, image->tls_word_count, sizeof(*image->tls_words),
			      address);

	return n && image->tls_words[n - 1].address == address ? &image->tls_words[n - 1] : NULL;
}

void image_free(struct image *image)
{
	for (size_t i = 0; i < image->segment_count; i++)
		free(image->segments[i].data);
	for (int i = 0; i < LISTED_KINDS; i++)
		free(image->listed[i]);
	free(image->segments);
	free(image->functions);
	free(image->tls_words);
	memset(image, 0, sizeof(*image));
}
