/* SPDX-License-Identifier: MIT */
/* larson: a server. Each thread replaces objects of a table at random, and after a while hands
 * the table on to a thread of its own that takes its place. The main thread fills the tables. */
#include "malloc/pattern.h"

#define OBJECTS 2000
#define GENERATION 20000 /* replacements until a thread hands on */

static void **tables;

static uint32_t size(struct worker *w) { return random_between(w, 16, 1000); }

static void setup(struct run *run, struct worker *w)
{
	tables = w_malloc(w, run->threads * OBJECTS * sizeof(*tables));
	for (size_t i = 0; i < (size_t)run->threads * OBJECTS; i++)
		tables[i] = block_new(w, size(w));
}

static void **table_of(const struct worker *w) { return tables + (size_t)w->index * OBJECTS; }

static void larson_serve(struct worker *w)
{
	void **table = table_of(w);
	uint64_t n = w->rounds < GENERATION ? w->rounds : GENERATION;

	w->rounds -= n;
	for (; n > 0; n--) {
		void **at = &table[random_below(w, OBJECTS)];

		block_free(w, *at);
		*at = block_new(w, size(w));
	}
}

static void larson_work(struct worker *w)
{
	while (w->rounds)
		worker_run(w, larson_serve);
	meet(w);
	for (size_t i = 0; i < OBJECTS; i++)
		block_free(w, table_of(w)[i]);
}

PATTERN(larson, "larson", 8000000, larson_work, .setup = setup);
