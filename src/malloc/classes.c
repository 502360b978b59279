/* SPDX-License-Identifier: MIT */
#include "classes.h"

#define GRANULE 16384
#define FRACTION(d) ((uint32_t)((UINT64_C(0x100000000) + (d)-1) / (d)))
#define BATCH(size) ((uint8_t)((size) > 16384 ? 1 : 16384 / (size) > 128 ? 128 : 16384 / (size)))

/* Size and granules. A span is as short as it can be with at least eight blocks, four of the
 * largest, and a waste of a sixteenth at most. */
/* clang-format off */
#define ALL_SIZES(X)                                                                               \
	X(8, 1) X(16, 1) X(32, 1) X(48, 1) X(64, 1) X(80, 1) X(96, 1) X(112, 1) X(128, 1)          \
	X(160, 1) X(192, 1) X(224, 1) X(256, 1) X(320, 1) X(384, 1) X(448, 1) X(512, 1) X(640, 1)  \
	X(768, 1) X(896, 1) X(1024, 1) X(1104, 1) X(1280, 1) X(1536, 1) X(1792, 1) X(2048, 1)      \
	X(2208, 2) X(2560, 2) X(3072, 2) X(3584, 2) X(4096, 2) X(4416, 3) X(5120, 3) X(6144, 3)    \
	X(7168, 4) X(8192, 4) X(8832, 5) X(10240, 5) X(12288, 6) X(14336, 7) X(16384, 8)           \
	X(17664, 8) X(20480, 5) X(24576, 6) X(28672, 7) X(32768, 8)
/* clang-format on */

#define SIZE(size, granules)                                                                       \
	{size, FRACTION(size), (granules)*GRANULE / (size), granules, BATCH(size)},

const struct near__size near__sizes[NEAR__SIZES + 1] = {{0, 0, 0, 0, 0}, ALL_SIZES(SIZE)};

/* The blocks of a longer span begin elsewhere in each granule: but all of them at multiples of the
 * powers of two in their size. */
#define POWER(size) ((size) & -(size))
#define STEP(size, granules)                                                                       \
	FRACTION((granules) == 1 ? (size) : POWER(size) < GRANULE ? POWER(size) : GRANULE),

const uint32_t near__steps[NEAR__KINDS] = {0, ALL_SIZES(STEP)};
