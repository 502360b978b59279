/* SPDX-License-Identifier: MIT */
/* Functions of a stripped file, by the table that unwinding searches (.eh_frame_hdr; Linux Standard
 * Base, "Exception Frames"). It stays when symbols and section headers are gone. */
#include "check/array.h"
#include "check/load.h"

#include <errno.h>
#include <string.h>

/* The encodings that linkers use: a count of 4 bytes, and pairs of distances from the table. */
#define COUNT_4 0x03
#define PAIRS_4 0x3b

struct header {
	uint8_t version, frame, count, table;
	int32_t frame_distance;
	uint32_t pairs;
};

/* In an entry of the usual encoding, the length of the function follows its start. */
static uint64_t length_at(const struct image *image, uint64_t entry)
{
	uint32_t length = 0;

	return image_read(image, entry + 12, &length, sizeof(length)) && length < 1u << 24 ? length
											   : 0;
}

static int add_frame(struct load *l, uint64_t start, uint64_t entry)
{
	struct image *image = l->image;
	uint64_t length = length_at(image, entry);

	if (!length || !image_is_code(image, start) || !image_is_code(image, start + length - 1))
		return 0;
	if (!array_grow(&image->functions, image->function_count, sizeof(*image->functions)))
		return -ENOMEM;
	image->functions[image->function_count++] = (struct function){start, start + length, NULL};
	return 0;
}

int load_frames(struct load *l)
{
	GElf_Phdr p = {0};
	struct header h;
	int32_t pair[2];
	bool found = false;

	for (size_t i = 0; i < l->segment_count && !found; i++)
		found = gelf_getphdr(l->elf, (int)i, &p) && p.p_type == PT_GNU_EH_FRAME;
	if (!found || !image_read(l->image, p.p_vaddr, &h, sizeof(h)) || h.version != 1 ||
	    h.count != COUNT_4 || h.table != PAIRS_4)
		return 0;
	for (uint64_t i = 0; i < h.pairs && i < l->size / sizeof(pair); i++) {
		int err;

		if (!image_read(l->image, p.p_vaddr + sizeof(h) + i * sizeof(pair), pair,
				sizeof(pair)))
			return 0;
		err = add_frame(l, p.p_vaddr + (uint64_t)(int64_t)pair[0],
				p.p_vaddr + (uint64_t)(int64_t)pair[1]);
		if (err)
			return err;
	}
	return 0;
}
