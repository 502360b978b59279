/* SPDX-License-Identifier: MIT */
/* The tables of the size classes. */
#include "malloc/base/classes.h"

#define PAGE 4096
#define FRACTION(d) ((uint32_t)((UINT64_C(0x100000000) + (d)-1) / (d)))
/* The casts: clang checks the range of both branches. */
#define BATCH(size)                                                                                \
	((uint8_t)((size) > 32768   ? 2                                                            \
		   : (size) >= 8192 ? 65536 / (size)                                               \
		   : (size) < 128   ? 128                                                          \
				    : 16384 / (size)))
#define KEPT_OF_TINY(size) (2048 / (size) > 64 ? 64 : 2048 / (size))
#define KEPT(size)                                                                                 \
	((uint8_t)((size) > 4096   ? 0                                                             \
		   : (size) < 128  ? KEPT_OF_TINY(size)                                            \
		   : (size) < 1024 ? 16                                                            \
				   : 16384 / (size)))
#define MOST_KEPT(size) (KEPT(size) > NEAR__LARGE_LISTS ? KEPT(size) : NEAR__LARGE_LISTS)

/* Size and pages. Spans of small blocks are all alike; others are short, with at least four
 * blocks, two above 8 KiB, and a waste of a twelfth at most, of a hundredth or so where blocks are
 * a power of two and a header. From 8 KiB on, multiples of a page are spans by themselves.
 * Y: the classes whose spans have parts. */
/* clang-format off */
#define ALL_SIZES(X, Y)                                                                            \
	X(8, 4) X(16, 4) X(32, 4) X(48, 4) X(64, 4) X(80, 4) X(96, 4) X(112, 4) X(128, 4)          \
	X(160, 4) X(192, 4) X(224, 4) X(256, 4) X(320, 4) X(384, 4) X(448, 4) X(512, 4) X(640, 4)  \
	X(768, 4) X(896, 4) X(1024, 4) Y(1104, 3) X(1280, 4) Y(1536, 3) X(1792, 4) X(2048, 2)      \
	Y(2208, 6) X(2560, 4) Y(3072, 3) Y(3584, 7) X(4096, 4) Y(4416, 13) Y(5120, 5) Y(6144, 6)   \
	Y(7168, 7) X(8192, 2) Y(8832, 13) Y(10240, 5) X(12288, 3) Y(14336, 7) X(16384, 4)          \
	X(20480, 5) X(24576, 6) X(28672, 7) X(32768, 8) X(40960, 10) X(49152, 12) X(57344, 14)     \
	X(65536, 16)
/* clang-format on */

/* The class of each size, and the first tag of its pages. */
#define CLASS_OF(size, pages) CLASS_##size,
enum { NO_CLASS, ALL_SIZES(CLASS_OF, CLASS_OF) CLASSES_END };
#define NO_TAG(size, pages)
#define TAGS_OF(size, pages) TAG_##size, LAST_TAG_##size = TAG_##size + (pages)-1,
enum { TAGS_BEFORE = NEAR__TAGS - 1, ALL_SIZES(NO_TAG, TAGS_OF) TAGS_END };
#define LISTS_OF(size, pages) LIST_##size, LAST_LIST_##size = LIST_##size + MOST_KEPT(size) - 1,
enum { LISTS_BEFORE = -1, ALL_SIZES(LISTS_OF, LISTS_OF) LISTS_END };
_Static_assert(CLASSES_END == NEAR__SIZES + 1, "classes");
_Static_assert(CLASS_8192 == NEAR__FIRST_LARGE, "large");
_Static_assert(CLASS_1024 + 1 == NEAR__FIRST_UNCHAINED && CLASS_16 == 2, "chains");
_Static_assert(LISTS_END == NEAR__LISTS, "lists");
_Static_assert(TAGS_END == NEAR__TAGS + NEAR__PARTS && TAGS_END <= 256, "tags are bytes");

#define ENTRY(size, pages, tag)                                                                    \
	{size, FRACTION(size), (pages)*PAGE / (size), pages, BATCH(size), KEPT(size),              \
	 tag,  LIST_##size},
#define SIZE(size, pages) ENTRY(size, pages, CLASS_##size)
#define SIZE_OF_PARTS(size, pages) ENTRY(size, pages, TAG_##size)

const struct near__size near__sizes[NEAR__SIZES + 1] = {{0, 0, 0, 0, 0, 0, 0, 0},
							ALL_SIZES(SIZE, SIZE_OF_PARTS)};

#define PART(size, i) {FRACTION(size), (i)*PAGE, CLASS_##size},
#define PARTS_3(size) PART(size, 0) PART(size, 1) PART(size, 2)
#define PARTS_5(size) PARTS_3(size) PART(size, 3) PART(size, 4)
#define PARTS_6(size) PARTS_5(size) PART(size, 5)
#define PARTS_7(size) PARTS_6(size) PART(size, 6)
#define PARTS_13(size)                                                                             \
	PARTS_7(size)                                                                              \
	PART(size, 7) PART(size, 8) PART(size, 9) PART(size, 10) PART(size, 11) PART(size, 12)
#define NO_PARTS(size, pages)
#define PARTS(size, pages) PARTS_##pages(size)

const struct near__part near__parts[NEAR__PARTS] = {ALL_SIZES(NO_PARTS, PARTS)};

/* Spans of four pages are aligned to NEAR__SMALL_SPAN. Of the others, blocks of up to a page
 * that are a power of two begin at its multiples, and a block that is a span by itself begins where
 * a page does. */
#define IS_POWER(size) (((size) & ((size)-1)) == 0)
#define STEP(size, pages)                                                                          \
	((pages) == 4 && (size) < PAGE * 4  ? FRACTION(size)                                       \
	 : IS_POWER(size) && (size) <= PAGE ? FRACTION(size)                                       \
	 : (pages)*PAGE / (size) == 1       ? FRACTION(PAGE)                                       \
					    : 0),

const uint32_t near__steps[NEAR__TAGS + NEAR__PARTS] = {0, ALL_SIZES(STEP, STEP)};
