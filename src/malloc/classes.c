/* SPDX-License-Identifier: MIT */
#include "classes.h"

#define GRANULE 16384
#define BATCH(size) ((uint8_t)((size) > 16384 ? 1 : 16384 / (size) > 128 ? 128 : 16384 / (size)))
#define SIZE(size, granules)                                                                       \
	{                                                                                          \
		size, (uint32_t)((UINT64_C(0x100000000) + (size)-1) / (size)),                     \
			(granules)*GRANULE / (size), granules, BATCH(size)                         \
	}

/* A span is as short as it can be with at least eight blocks, four of the largest, and a waste of
 * a sixteenth at most. */
const struct near__size near__sizes[NEAR__SIZES + 1] = {
	{0, 0, 0, 0, 0}, SIZE(8, 1),     SIZE(16, 1),    SIZE(32, 1),    SIZE(48, 1),
	SIZE(64, 1),     SIZE(80, 1),    SIZE(96, 1),    SIZE(112, 1),   SIZE(128, 1),
	SIZE(160, 1),    SIZE(192, 1),   SIZE(224, 1),   SIZE(256, 1),   SIZE(320, 1),
	SIZE(384, 1),    SIZE(448, 1),   SIZE(512, 1),   SIZE(640, 1),   SIZE(768, 1),
	SIZE(896, 1),    SIZE(1024, 1),  SIZE(1104, 1),  SIZE(1280, 1),  SIZE(1536, 1),
	SIZE(1792, 1),   SIZE(2048, 1),  SIZE(2208, 2),  SIZE(2560, 2),  SIZE(3072, 2),
	SIZE(3584, 2),   SIZE(4096, 2),  SIZE(4416, 3),  SIZE(5120, 3),  SIZE(6144, 3),
	SIZE(7168, 4),   SIZE(8192, 4),  SIZE(8832, 5),  SIZE(10240, 5), SIZE(12288, 6),
	SIZE(14336, 7),  SIZE(16384, 8), SIZE(17664, 8), SIZE(20480, 5), SIZE(24576, 6),
	SIZE(28672, 7),  SIZE(32768, 8),
};
