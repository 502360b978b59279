/* SPDX-License-Identifier: MIT */
/* The descriptors of a file: by the sections that list them, and by their form. */
#include "check/array.h"
#include "check/sequence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTOR 32
#define MOST_DESCRIPTORS 10000

static int add(struct checker *c, struct descriptor d)
{
	uint64_t words[4] = {0};

	if (c->descriptor_count >= MOST_DESCRIPTORS)
		return -E2BIG;
	d.is_there = image_read(c->image, d.address, words, sizeof(words));
	d.version = (uint32_t)words[0];
	d.flags = (uint32_t)(words[0] >> 32);
	d.start = words[1];
	d.length = words[2];
	d.abort = words[3];
	APPEND(c->descriptors, c->descriptor_count, d);
	return 0;
}

static int from_sections(struct checker *c)
{
	const struct image *image = c->image;
	int err = 0;

	for (size_t i = 0; i < image->listed_count[LISTED_CS] && !err; i++) {
		const struct range *r = &image->listed[LISTED_CS][i];

		for (uint64_t at = r->start; r->end - at >= DESCRIPTOR && !err; at += DESCRIPTOR)
			err = add(c, (struct descriptor){.address = at, .in_section = true});
	}
	for (size_t i = 0; i < image->listed_count[LISTED_POINTERS] && !err; i++) {
		const struct range *r = &image->listed[LISTED_POINTERS][i];
		uint64_t pointer;

		for (uint64_t at = r->start; r->end - at >= 8 && !err; at += 8) {
			/* A section that claims to be larger than the file ends here; or, if memory
			 * beyond the file is claimed, too, where nobody can count any more. */
			if (!image_read(image, at, &pointer, 8))
				break;
			if ((at - r->start) / 8 >= MOST_DESCRIPTORS)
				return -E2BIG;
			if (pointer)
				err = add(c, (struct descriptor){.address = pointer,
								 .in_array = true});
		}
	}
	return err;
}

/* By the form: nothing but a descriptor has a start and an abort address in code, a length that
 * fits, and the signature before the abort address. */
static bool has_form(const struct image *image, const uint8_t *bytes)
{
	uint64_t words[4];
	uint32_t signature;

	memcpy(words, bytes, sizeof(words));
	return words[0] == 0 && words[2] && words[2] <= MOST_LENGTH &&
	       words[3] - words[1] >= words[2] && image_is_code(image, words[1]) &&
	       image_is_code(image, words[1] + words[2] - 1) && image_is_code(image, words[3]) &&
	       image_read(image, words[3] - 4, &signature, 4) &&
	       signature == image->facts->signature;
}

static int from_form(struct checker *c)
{
	for (size_t i = 0; i < c->image->segment_count; i++) {
		const struct segment *s = &c->image->segments[i];

		for (uint64_t at = -s->address & (DESCRIPTOR - 1); at + DESCRIPTOR <= s->filled;
		     at += DESCRIPTOR) {
			int err;

			if (!has_form(c->image, s->data + at))
				continue;
			err = add(c,
				  (struct descriptor){.address = s->address + at, .by_form = true});
			if (err)
				return err;
		}
	}
	return 0;
}

/* One entry for each address, with all the ways in which it was found. */
static void unite(struct checker *c)
{
	size_t kept = 0;

	if (!c->descriptor_count)
		return;
	array_sort(c->descriptors, c->descriptor_count, sizeof(*c->descriptors));
	for (size_t i = 1; i < c->descriptor_count; i++) {
		struct descriptor *last = &c->descriptors[kept], *d = &c->descriptors[i];

		if (d->address != last->address) {
			c->descriptors[++kept] = *d;
			continue;
		}
		last->in_section |= d->in_section;
		last->in_array |= d->in_array;
		last->by_form |= d->by_form;
	}
	c->descriptor_count = kept + 1;
}

static void collect_ranges(struct checker *c)
{
	for (size_t i = 0; i < c->descriptor_count; i++) {
		const struct descriptor *d = &c->descriptors[i];

		if (!d->length || d->length > MOST_LENGTH || d->length > UINT64_MAX - d->start)
			continue;
		APPEND(c->ranges, c->range_count, (struct range){d->start, d->start + d->length});
	}
	array_sort(c->ranges, c->range_count, sizeof(*c->ranges));
}

const struct range *find_range(const struct checker *c, uint64_t address)
{
	size_t n = array_find(c->ranges, c->range_count, sizeof(*c->ranges), address);

	return n && address < c->ranges[n - 1].end ? &c->ranges[n - 1] : NULL;
}

int find_descriptors(struct checker *c)
{
	int err = from_sections(c);

	if (!err)
		err = from_form(c);
	if (err)
		return err;
	unite(c);
	collect_ranges(c);
	return 0;
}
