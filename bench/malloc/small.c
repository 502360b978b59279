/* SPDX-License-Identifier: MIT */
/* small: many small blocks that live for a few dozen others; far: thousands live
 * together, more than any cache in front of a heap holds, and are then freed in another order. */
#include "pattern.h"

#define NEAR_BLOCKS 64
#define FAR_BLOCKS 16384 /* a power of two */

static uint32_t size(struct worker *w)
{
	return random_between(w, 16, 128);
}

static void small(struct worker *w)
{
	void *block[NEAR_BLOCKS] = {NULL};

	for (uint64_t i = 0; i < w->rounds; i++) {
		block_free(w, block[i % NEAR_BLOCKS]);
		block[i % NEAR_BLOCKS] = block_new(w, size(w));
	}
	meet(w);
	for (unsigned i = 0; i < NEAR_BLOCKS; i++)
		block_free(w, block[i]);
}

/* An odd factor reaches each index once. */
static void fill_and_free(struct worker *w, void **block, uint32_t n, bool first)
{
	uint32_t factor = random_next(w) | 1;

	for (uint32_t i = 0; i < n; i++)
		block[i] = block_new(w, size(w));
	if (first)
		meet(w);
	for (uint32_t i = 0; i < FAR_BLOCKS; i++)
		if (i * factor % FAR_BLOCKS < n)
			block_free(w, block[i * factor % FAR_BLOCKS]);
}

static void far(struct worker *w)
{
	void **block = w_malloc(w, FAR_BLOCKS * sizeof(*block));

	for (bool first = true; w->rounds; first = false) {
		uint32_t n = w->rounds < FAR_BLOCKS ? (uint32_t)w->rounds : FAR_BLOCKS;

		fill_and_free(w, block, n, first);
		w->rounds -= n;
	}
	w_free(w, block);
}

const struct pattern pattern_small = {.name = "small", .rounds = 24000000, .work = small};
const struct pattern pattern_far = {.name = "far", .rounds = 7000000, .work = far};
