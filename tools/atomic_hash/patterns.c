/* SPDX-License-Identifier: MIT */
#include "patterns.h"

#include <nearcpu/percpu.h>

#include "hashes.h"

#define PAGE 4096
#define ELSEWHERE 0x7f0000000000u /* where an address space has its mappings */

/* Adds an address unless its line has one. */
static size_t add(uintptr_t *at, size_t n, uintptr_t address)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] / LINE == address / LINE)
			return n;
	at[n] = address;
	return n + 1;
}

void pattern_array(uintptr_t *at, size_t stride)
{
	size_t n = 0;

	for (uintptr_t address = ELSEWHERE; n < OBJECTS; address += stride)
		n = add(at, n, address);
}

/* ---- mappings: Linux puts each below the one before ---- */

static void pattern_mappings(uintptr_t *at, size_t size, uintptr_t offset)
{
	for (size_t i = 0; i < OBJECTS; i++)
		at[i] = ELSEWHERE - (i + 1) * size + offset;
}

/* A variable on the stack of each of many threads: glibc has a guard page below each stack, and its
 * own data at the upper end. */
static void pattern_stacks(uintptr_t *at, size_t size)
{
	pattern_mappings(at, size + PAGE, size + PAGE - 0x1150);
}

static void pattern_pages(uintptr_t *at, size_t size)
{
	pattern_mappings(at, size, 0);
}

/* ---- blocks of glibc's malloc ---- */

#define HEADER 16

/* A mapping for each. */
static void pattern_large_blocks(uintptr_t *at, size_t size)
{
	pattern_mappings(at, (size + HEADER + PAGE - 1) / PAGE * PAGE, HEADER);
}

/* Not rand: it shall be the same everywhere. */
static uint32_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* One behind the other, half a header between them, from the first of a heap on. The size 0: mixed,
 * of 24 to 512 bytes. */
static void pattern_blocks(uintptr_t *at, size_t size)
{
	uintptr_t address = ELSEWHERE + 0x2a0;
	uint64_t state = 1;
	size_t n = 0;

	while (n < OBJECTS) {
		size_t bytes = size ? size : 24 + next_random(&state) % 489;

		n = add(at, n, address);
		address += (bytes + HEADER / 2 + 15) / 16 * 16;
	}
}

/* ---- near_percpu(3) ---- */

/* So many objects, each in as many slots. */
static void pattern_copies(uintptr_t *at, size_t objects)
{
	size_t n = 0;

	for (size_t slot = 0; slot < OBJECTS / objects; slot++)
		for (size_t i = 0; i < objects; i++)
			n = add(at, n,
				ELSEWHERE + i * LINE + ((uintptr_t)slot << NEAR_STRIDE_SHIFT));
}

const struct pattern patterns[] = {
	{"array, 24, 40, 64 bytes apart", pattern_array, 24, LINE},
	{"array, 72", pattern_array, 72, LINE},
	{"array, 96", pattern_array, 96, LINE},
	{"array, 128", pattern_array, 128, LINE},
	{"array, 192", pattern_array, 192, LINE},
	{"array, 320", pattern_array, 320, LINE},
	{"array, 1,024", pattern_array, 1024, LINE},
	{"array, 4,096", pattern_array, 4096, LINE},
	{"array, 4,160", pattern_array, 4160, LINE},
	{"array, 65,536", pattern_array, 65536, LINE},
	{"array, 2,097,152", pattern_array, 2097152, LINE},
	{"threads' stacks, 8 MiB", pattern_stacks, 8 << 20, PAGE},
	{"threads' stacks, 256 KiB", pattern_stacks, 256 << 10, PAGE},
	{"malloc(24)", pattern_blocks, 24, PAGE},
	{"malloc(100)", pattern_blocks, 100, PAGE},
	{"malloc, 24 to 512", pattern_blocks, 0, PAGE},
	{"malloc(1 MiB)", pattern_large_blocks, 1 << 20, PAGE},
	{"pages of mmap", pattern_pages, PAGE, PAGE},
	{"near_percpu, 1 in 256 slots", pattern_copies, 1, PAGE},
	{"near_percpu, 16 in 16 slots", pattern_copies, 16, PAGE},
};
const size_t pattern_count = sizeof(patterns) / sizeof(patterns[0]);
