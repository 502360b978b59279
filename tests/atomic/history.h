/* SPDX-License-Identifier: MIT */
/* history: what several threads did to one object and when, and whether there is an order of it in
 * which each operation takes effect at one moment between its begin and its end (Wing and Gong,
 * 1993). An object is one word of 32 bits here: the wider ones of the test repeat it all over. */
#ifndef NEARCPU_TESTS_HISTORY_H
#define NEARCPU_TESTS_HISTORY_H

#include "operations.h"

#define HISTORY_THREADS 4u
#define HISTORY_EVENTS 6u

struct event {
	uint64_t begin, end;
	enum operation_kind kind;
	bool swapped, torn; /* torn: what came back was no value that anybody stored */
	uint32_t value, expected, result; /* of a compare-exchange: the result is what it found */
};

struct history {
	uint32_t first, last; /* what was there before and after */
	uint32_t mask;        /* the bits that the object has */
	unsigned threads, n;  /* how many, and how many events each has */
	struct event events[HISTORY_THREADS][HISTORY_EVENTS];
};

bool history_is_linear(const struct history *history);

/* Whether operations of two threads overlapped. */
bool history_overlaps(const struct history *history);

void history_print(FILE *out, const struct history *history);

#endif
