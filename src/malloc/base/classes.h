/* SPDX-License-Identifier: MIT */
/* classes: the sizes of small blocks. 8, then steps of 16 up to 128, then four for each
 * doubling; from 1024 to 16384 one more, 5/64 above a power of two: many a block is a power of two
 * and a header, such as a database's page of 4096 bytes. */
#ifndef NEARCPU_MALLOC_CLASSES_H
#define NEARCPU_MALLOC_CLASSES_H

#include <stddef.h>
#include <nearcpu/detail/arch/arch.h>
#include <stdint.h>

/* Classes are numbered from 1. 0 is none. */
#define NEAR__SIZES 49
#define NEAR__SMALL_MAX ((size_t)65536)
/* The classes of sizes up to here are in a table, those of others are computed. */
#define NEAR__TABLE_MAX ((size_t)1024)
/* The length and the alignment of the spans of four pages. */
#define NEAR__SMALL_SPAN ((size_t)16384)

struct near__size {
	uint32_t size;
	uint32_t reciprocal; /* offset * reciprocal >> 32 is offset / size, for offsets in a span */
	uint16_t objects;    /* in a span */
	uint8_t pages;       /* of a span */
	/* Blocks that move between levels together: 16 KiB; of blocks of 8 KiB and more, 64 KiB. */
	uint8_t batch;
	/* How many lists one cache may keep; in a large heap up to NEAR__LARGE_LISTS. Fewer of
	 * large blocks: a refill from spans costs less per byte, and an idle list costs more. More
	 * of tiny blocks: 128 of them are few bytes, and what exceeds the lists returns to spans
	 * block by block, from where neighbours in a cache line go to different CPUs. */
	uint8_t lists;
	uint8_t tag;  /* of its pages: the class, or that of the first of a span's parts */
	uint16_t row; /* its first element of an array of the lists of all classes */
};
extern const struct near__size near__sizes[NEAR__SIZES + 1] __attribute__((visibility("hidden")));

#define NEAR__FIRST_LARGE 36     /* the class of 8 KiB */
#define NEAR__FIRST_UNCHAINED 22 /* the class above 1 KiB: central/chains.h */
#define NEAR__MOST_LISTS 64      /* of one class, in one cache */
#define NEAR__LARGE_LISTS 16     /* of a class that has fewer, if the heap is large */
#define NEAR__LISTS 986          /* of all classes, in one cache */

/* The tag of a page is a class, or one of the numbers after the classes (heap.h), or a part of a
 * span, numbered from NEAR__TAGS on. */
#define NEAR__TAGS (NEAR__SIZES + 4)

/* A part is one page of a span that is not aligned, or not four pages long: the offsets of blocks
 * in the page depend on its position in the span. Each such page of each class has a tag of its
 * own, from which free computes these without the span's descriptor. */
struct near__part {
	uint32_t step;   /* 2^32 / the size of the blocks */
	uint16_t before; /* bytes of the span in front of the page */
	uint8_t class;
};
#define NEAR__PARTS 78
extern const struct near__part near__parts[NEAR__PARTS] __attribute__((visibility("hidden")));

/* By tag: 2^32 / the distance of blocks in a NEAR__SMALL_SPAN; 0: the span has parts, the page is
 * one, or the tag is no class. A block begins at an offset if the product of the two wraps to less
 * than this number: Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019. */
extern const uint32_t near__steps[NEAR__TAGS + NEAR__PARTS] __attribute__((visibility("hidden")));

/* The class of n, 1 to NEAR__SMALL_MAX, computed. */
static inline unsigned near__class_above_128(size_t n)
{
	unsigned e = NEAR__TOP_BIT(n - 1);
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
