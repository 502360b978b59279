/* SPDX-License-Identifier: MIT */
/* mixed: sizes to 64 KB; large: 1 to 32 MB; zeroed: calloc of both kinds, of which a part is used.
 * Blocks of a table are replaced at random. */
#include "malloc/pattern.h"

#define MIXED 256
#define LARGE 16 /* of all threads, one each at least */
#define ZEROED 32

/* `sizes`: powers of two, from and to. */
static void block_replace(struct worker *w, void **block, unsigned count, const unsigned sizes[2])
{
	for (unsigned i = 0; i < count; i++)
		block[i] = block_new(w, random_log(w, sizes[0], sizes[1]));
	meet(w);
	for (uint64_t i = 0; i < w->rounds; i++) { /* NOLINT: block holds them */
		unsigned at = random_below(w, count);

		block_free(w, block[at]);
		block[at] = block_new(w, random_log(w, sizes[0], sizes[1]));
	}
	meet(w);
	for (unsigned i = 0; i < count; i++)
		block_free(w, block[i]);
}

static void mixed(struct worker *w)
{
	void *block[MIXED] = {NULL};

	block_replace(w, block, MIXED, (const unsigned[]){4, 16});
}

static void large(struct worker *w)
{
	void *block[LARGE] = {NULL};

	block_replace(w, block, w->run->threads < LARGE ? LARGE / w->run->threads : 1,
		      (const unsigned[]){20, 25});
} /* NOLINT: replace frees them */

/* A table that fills up to a quarter. */
static char *zeroed_table(struct worker *w)
{
	size_t n = random_log(w, 6, 20);
	char *p = w_calloc(w, n);

	if (p[0] || p[n / 2] || p[n - 1])
		die("calloc gave what was not zero");
	touch(p, 0, n / 4);
	p[n - 1] = 1;
	return p;
}

static void zeroed(struct worker *w)
{
	char *table[ZEROED] = {NULL};

	for (unsigned i = 0; i < ZEROED; i++)
		table[i] = zeroed_table(w);
	meet(w);
	for (uint64_t i = 0; i < w->rounds; i++) {
		unsigned at = random_below(w, ZEROED);

		w_free(w, table[at]);
		table[at] = zeroed_table(w);
	}
	meet(w);
	for (unsigned i = 0; i < ZEROED; i++)
		w_free(w, table[i]);
}

PATTERN(mixed, "mixed", 2000000, mixed);
PATTERN(large, "large", 400, large, .every = 1);
PATTERN(zeroed, "zeroed", 80000, zeroed, .every = 4);
