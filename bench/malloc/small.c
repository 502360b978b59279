/* SPDX-License-Identifier: MIT */
/* small: many small blocks that live for a few dozen others; far: thousands live
 * together, more than any cache in front of a heap holds, and are then freed in another order;
 * flood: tiny blocks, of which each thread allocates many and then frees all, the first one first:
 * a thousand, or a hundred thousand, or two hundred thousand of one size. */
#include "malloc/pattern.h"

#define NEAR_BLOCKS 64
#define FAR_BLOCKS 16384 /* a power of two */

static uint32_t size(struct worker *w) { return random_between(w, 16, 128); }

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

struct tiny {
	struct tiny *next;
};

static void fill_and_empty(struct worker *w, uint64_t n, uint32_t least, uint32_t most, bool first)
{
	struct tiny *list = NULL, **end = &list;

	for (uint64_t i = 0; i < n; i++) {
		size_t size = least < most ? random_between(w, least, most) : most;
		struct tiny *t = w_malloc(w, size);

		touch((char *)t, 0, size);
		*end = t;
		end = &t->next;
	}
	*end = NULL;
	if (first)
		meet(w);
	while (list) {
		struct tiny *t = list;

		list = t->next;
		w_free(w, t);
	}
}

static void flood_of(struct worker *w, uint64_t live, uint32_t least, uint32_t most)
{
	for (bool first = true; w->rounds; first = false) {
		uint64_t n = w->rounds < live ? w->rounds : live;

		fill_and_empty(w, n, least, most, first);
		w->rounds -= n;
	}
}

#define TINY sizeof(struct tiny)
static void flood(struct worker *w) { flood_of(w, 1000, TINY, 64); }
static void flood_many(struct worker *w) { flood_of(w, 100000, TINY, 64); }
static void flood_16(struct worker *w) { flood_of(w, 200000, 16, 16); }
static void flood_64(struct worker *w) { flood_of(w, 200000, 64, 64); }

PATTERN(small, "small", 24000000, small);
PATTERN(far, "far", 7000000, far);
PATTERN(flood, "flood", 12000000, flood);
PATTERN(flood_many, "flood-many", 6400000, flood_many);
PATTERN(flood_16, "flood-16", 6400000, flood_16);
PATTERN(flood_64, "flood-64", 6400000, flood_64);
