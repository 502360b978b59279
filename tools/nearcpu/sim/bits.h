/* SPDX-License-Identifier: MIT */
/* bits: a set of up to 4,096 numbers, CPUs or ids, in two levels: a search visits two words. */
#ifndef NEARCPU_SIM_BITS_H
#define NEARCPU_SIM_BITS_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_CPUS 4096

struct bits {
	uint64_t some; /* bit w: word[w] is not empty */
	uint64_t full; /* bit w: word[w] has no zero */
	unsigned count;
	uint64_t word[SIM_CPUS / 64];
};

static inline bool bits_test(const struct bits *b, unsigned n)
{
	return b->word[n / 64] >> n % 64 & 1;
}

/* Both return what the bit was before. */
static inline bool bits_set(struct bits *b, unsigned n)
{
	uint64_t *word = &b->word[n / 64], bit = 1ull << n % 64;

	if (*word & bit)
		return true;
	*word |= bit;
	b->some |= 1ull << n / 64;
	if (*word == ~0ull)
		b->full |= 1ull << n / 64;
	b->count++;
	return false;
}

static inline bool bits_clear(struct bits *b, unsigned n)
{
	uint64_t *word = &b->word[n / 64], bit = 1ull << n % 64;

	if (!(*word & bit))
		return false;
	*word &= ~bit;
	b->full &= ~(1ull << n / 64);
	if (!*word)
		b->some &= ~(1ull << n / 64);
	b->count--;
	return true;
}

/* The lowest number that is not in the set, if it is below `limit`; or `limit`. */
static inline unsigned bits_first_zero(const struct bits *b, unsigned limit)
{
	unsigned w, n;

	if (!~b->full)
		return limit;
	w = (unsigned)__builtin_ctzll(~b->full);
	n = w * 64 + (unsigned)__builtin_ctzll(~b->word[w]);
	return n < limit ? n : limit;
}

/* The lowest member in [from, limit), or `limit`. */
static inline unsigned bits_next(const struct bits *b, unsigned from, unsigned limit)
{
	uint64_t rest, words;
	unsigned w = from / 64, n;

	if (from >= limit)
		return limit;
	rest = b->word[w] & ~0ull << from % 64;
	if (!rest) {
		words = w == 63 ? 0 : b->some & ~0ull << (w + 1);
		if (!words)
			return limit;
		w = (unsigned)__builtin_ctzll(words);
		rest = b->word[w];
	}
	n = w * 64 + (unsigned)__builtin_ctzll(rest);
	return n < limit ? n : limit;
}

/* The lowest member of [least, limit) at or after `from`, else the first before it; or `limit`. */
static inline unsigned bits_around(const struct bits *b, unsigned least, unsigned from,
				   unsigned limit)
{
	unsigned n = bits_next(b, from, limit);

	if (n < limit)
		return n;
	n = bits_next(b, least, from);
	return n < from ? n : limit;
}

/* The lowest number below `limit` that is in `a` (`in`) or is not, but not in `b`; or
 * `limit`. */
static inline unsigned bits_first_of(const struct bits *a, bool in, const struct bits *b,
				     unsigned limit)
{
	uint64_t words = ~b->full & (in ? a->some : ~a->full);

	for (; words; words &= words - 1) {
		unsigned w = (unsigned)__builtin_ctzll(words), n;
		uint64_t rest = (in ? a->word[w] : ~a->word[w]) & ~b->word[w];

		if (!rest)
			continue;
		n = w * 64 + (unsigned)__builtin_ctzll(rest);
		return n < limit ? n : limit;
	}
	return limit;
}

#endif
