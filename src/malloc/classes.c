/* SPDX-License-Identifier: MIT */
#include "classes.h"

#define GRANULE 4096
#define FRACTION(d) ((uint32_t)((UINT64_C(0x100000000) + (d)-1) / (d)))
/* clang minds the size of what is not chosen, too. */
#define BATCH(size) ((uint8_t)((size) > 8192 ? 2 : (size) < 128 ? 128 : 16384 / (size)))
#define KEPT(size) ((uint8_t)((size) > 4096 ? 0 : (size) < 1024 ? 16 : 16384 / (size)))

/* Size and granules. Spans of small blocks are all alike; others are short, with at least four
 * blocks, two above 8 KiB, and a waste of a twelfth at most, of a hundredth or so where blocks are
 * a power of two and a header. From 8 KiB on, multiples of a granule are spans by themselves. */
/* clang-format off */
#define ALL_SIZES(X)                                                                               \
	X(8, 4) X(16, 4) X(32, 4) X(48, 4) X(64, 4) X(80, 4) X(96, 4) X(112, 4) X(128, 4)          \
	X(160, 4) X(192, 4) X(224, 4) X(256, 4) X(320, 4) X(384, 4) X(448, 4) X(512, 4) X(640, 4)  \
	X(768, 4) X(896, 4) X(1024, 4) X(1104, 3) X(1280, 4) X(1536, 3) X(1792, 4) X(2048, 2)      \
	X(2208, 6) X(2560, 4) X(3072, 3) X(3584, 7) X(4096, 4) X(4416, 13) X(5120, 5) X(6144, 6)   \
	X(7168, 7) X(8192, 2) X(8832, 13) X(10240, 5) X(12288, 3) X(14336, 7) X(16384, 4)          \
	X(20480, 5) X(24576, 6) X(28672, 7) X(32768, 8) X(40960, 10) X(49152, 12) X(57344, 14)     \
	X(65536, 16)
/* clang-format on */

#define SIZE(size, granules)                                                                       \
	{size, FRACTION(size), (granules)*GRANULE / (size), granules, BATCH(size), KEPT(size)},

const struct near__size near__sizes[NEAR__SIZES + 1] = {{0, 0, 0, 0, 0, 0}, ALL_SIZES(SIZE)};

/* Spans of four granules are aligned to NEAR__SMALL_SPAN. Of the others, blocks of up to a granule
 * that are a power of two begin at its multiples, and a block that is a span by itself begins where
 * a granule does. */
#define IS_POWER(size) (((size) & ((size)-1)) == 0)
#define STEP(size, granules)                                                                       \
	((granules) == 4 && (size) < GRANULE * 4 ? FRACTION(size)                                  \
	 : IS_POWER(size) && (size) <= GRANULE   ? FRACTION(size)                                  \
	 : (granules)*GRANULE / (size) == 1      ? FRACTION(GRANULE)                               \
						 : 0),

const uint32_t near__steps[NEAR__KINDS] = {0, ALL_SIZES(STEP)};
