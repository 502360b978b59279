/* SPDX-License-Identifier: MIT */
/* classes: the sizes that small blocks come in. 8, then steps of 16 up to 128, then four for each
 * doubling; from 1024 to 16384 one more, 5/64 above a power of two: many a block is a power of two
 * and a header, such as a database's page of 4096 bytes. */
#ifndef NEARCPU_MALLOC_CLASSES_H
#define NEARCPU_MALLOC_CLASSES_H

#include <stddef.h>
#include <stdint.h>

/* Classes are numbered from 1. 0 is none. */
#define NEAR__SIZES 49
#define NEAR__SMALL_MAX ((size_t)65536)
/* Sizes up to here are looked up in a table, the others computed. */
#define NEAR__TABLE_MAX ((size_t)1024)
/* Their spans are so long, and aligned so. */
#define NEAR__SMALL_SPAN ((size_t)16384)

struct near__size {
	uint32_t size;
	uint32_t reciprocal; /* offset * reciprocal >> 32 is offset / size, for offsets in a span */
	uint16_t objects;    /* in a span */
	uint8_t pages;       /* of a span */
	uint8_t batch;       /* blocks that move between the layers at once: 16 KiB, 2 to 128 */
	/* How many lists one cache may keep. Fewer of large blocks: the way to their spans costs
	 * less for a byte, and what is kept costs more. 0: stash.c decides. */
	uint8_t lists;
	uint8_t tag; /* of its pages: the class, or that of the first of a span's parts */
};
extern const struct near__size near__sizes[NEAR__SIZES + 1];

/* Granules are of a class, or of something else, numbered from there on: heap.h; or a part of a
 * span, numbered from NEAR__TAGS on. */
#define NEAR__TAGS (NEAR__SIZES + 4)

/* A part is one page of a span that is not aligned, or not four pages long, so that where
 * blocks begin in it depends on its place in the span. Each such page of each class has a tag,
 * from which free finds both without the span's descriptor. */
struct near__part {
	uint32_t step;   /* 2^32 / the size of the blocks */
	uint16_t before; /* bytes of the span in front of the page */
	uint8_t class;
};
#define NEAR__PARTS 78
extern const struct near__part near__parts[NEAR__PARTS];

/* 2^32 / the distance of the places in a NEAR__SMALL_SPAN where blocks begin; 0: such spans have
 * parts, the page is one, or there are no blocks of a class. A place is one of these if its
 * product with that wraps to less than that: Lemire, Kaser and Kurz, "Faster remainder by direct
 * computation", 2019. */
extern const uint32_t near__steps[NEAR__TAGS + NEAR__PARTS];

/* The class of n, 1 to NEAR__SMALL_MAX, computed. */
static inline unsigned near__class_above_128(size_t n)
{
	unsigned e = 63 - (unsigned)__builtin_clzl(n - 1);
	unsigned quarter = (unsigned)((n - 1) >> (e - 2) & 3);

	if (e < 10)
		return 10 + (e - 7) * 4 + quarter;
	if (e < 14)
		return 22 + (e - 10) * 5 + (((n - 1) >> (e - 6) & 63) < 5 ? 0 : 1 + quarter);
	return 42 + (e - 14) * 4 + quarter;
}

static inline unsigned near__class_compute(size_t n)
{
	if (n <= 8)
		return 1;
	return n <= 128 ? 1 + (unsigned)(n + 15) / 16 : near__class_above_128(n);
}

#endif
