/* SPDX-License-Identifier: MIT */
/* Bytes and section names of the file that is loaded, and the segments that are made of it. */
#include "check/array.h"
#include "check/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const void *load_bytes(const struct load *l, uint64_t offset, uint64_t size)
{
	if (offset > l->size || size > l->size - offset)
		return NULL;
	return l->file + offset;
}

const char *load_section_name(const struct load *l, size_t i)
{
	const Elf64_Shdr *names;
	const char *bytes;

	if (l->names >= l->section_count)
		return "";
	names = &l->sections[l->names];
	bytes = load_bytes(l, names->sh_offset, names->sh_size);
	if (!bytes || l->sections[i].sh_name >= names->sh_size ||
	    !memchr(bytes + l->sections[i].sh_name, 0, names->sh_size - l->sections[i].sh_name))
		return "";
	return bytes + l->sections[i].sh_name;
}

int load_segment(struct load *l, const struct segment *like, uint64_t offset)
{
	const void *bytes = load_bytes(l, offset, like->filled);
	struct image *image = l->image;
	struct segment *s;

	if (!bytes || like->filled > like->size || like->size > UINT64_MAX - like->address ||
	    like->filled > l->budget) {
		snprintf(l->why, WHY_SIZE, "damaged: a segment does not lie in the file");
		return -EBADMSG;
	}
	l->budget -= like->filled;
	if (!array_grow(&image->segments, image->segment_count, sizeof(*s)))
		return -ENOMEM;
	s = &image->segments[image->segment_count];
	*s = *like;
	s->data = malloc(like->filled ? like->filled : 1);
	if (!s->data)
		return -ENOMEM;
	memcpy(s->data, bytes, like->filled);
	image->segment_count++;
	return 0;
}

int load_sort_segments(struct load *l)
{
	struct image *image = l->image;

	array_sort(image->segments, image->segment_count, sizeof(*image->segments));
	for (size_t i = 1; i < image->segment_count; i++) {
		const struct segment *before = &image->segments[i - 1];

		if (image->segments[i].address - before->address < before->size) {
			snprintf(l->why, WHY_SIZE, "damaged: two segments overlap");
			return -EBADMSG;
		}
	}
	return 0;
}
