/* SPDX-License-Identifier: MIT */
/* scatter: numbers whose bits an instruction has in several places. */
#ifndef NEARCPU_CHECK_SCATTER_H
#define NEARCPU_CHECK_SCATTER_H

#include <stdint.h>

/* `count` bits of the number, from bit `from` on, go to bit `to` of the word. */
struct bits {
	uint8_t from, count, to;
};

#define MOST_BITS 9 /* a list that is shorter ends with a count of 0 */

static inline uint64_t bits_put(uint64_t word, uint64_t number, const struct bits list[MOST_BITS])
{
	for (const struct bits *b = list; b < list + MOST_BITS && b->count; b++) {
		uint64_t mask = UINT64_MAX >> (64 - b->count);

		word = (word & ~(mask << b->to)) | (number >> b->from & mask) << b->to;
	}
	return word;
}

#endif
