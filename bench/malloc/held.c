/* SPDX-License-Identifier: MIT */
/* startup: a program that has one block; freed: one that has freed all it had and sleeps. What is
 * resident at the end counts, not the peak. */
#include "malloc/pattern.h"

#define MEGABYTE 1000000
#define MS_EACH 10 /* of sleep, for each megabyte */

static void startup(struct worker *w) { block_free(w, block_new(w, 100)); }

struct link {
	struct link *next;
};

/* A round is a megabyte of blocks; every other goes first. */
static void freed(struct worker *w)
{
	struct link *odd = NULL, *even = NULL, *l;

	for (uint64_t bytes = 0, n; bytes < w->rounds * MEGABYTE; bytes += n) {
		n = random_between(w, 16, 256);
		l = w_malloc(w, n);
		touch((char *)l, 0, n);
		l->next = even;
		even = odd;
		odd = l;
	}
	for (int i = 0; i < 2; i++, odd = even)
		while ((l = odd)) {
			odd = l->next;
			w_free(w, l);
		}
	pause_ms(w->run->rounds * MS_EACH);
}

PATTERN(startup, "startup", 1, startup, .at_end = true);
PATTERN(freed, "freed", 300, freed, .at_end = true);
