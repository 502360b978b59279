/* SPDX-License-Identifier: MIT */
/* As word.h, for words of 16 bytes. All CPUs that change these by one instruction are
 * little-endian. The object is in no smaller word, so it has a part in each half. The code shifts
 * halves, since shifts of 128 bits by a variable distance are long. */
#ifndef NEARCPU_ATOMIC_WIDE_WORD_H
#define NEARCPU_ATOMIC_WIDE_WORD_H

#include "atomic/wide.h"
#include "atomic/word.h"

#if NEAR__HAS_WIDE

/* n bytes from byte `at` of a word on; at < 8 < at + n. */
struct near__span {
	unsigned at, n;
};

static inline struct near__span near__span_of(const void *p, size_t n)
{
	return (struct near__span){(unsigned)((uintptr_t)p & 15), (unsigned)n};
}

static inline near__wide near__halves(uint64_t low, uint64_t high)
{
	return (near__wide)high << 64 | low;
}

static inline near__wide near__word16_mask(struct near__span s)
{
	return near__halves(~UINT64_C(0) << 8 * s.at, ~UINT64_C(0) >> 8 * (16 - s.at - s.n));
}

/* Fewer than 8 bytes are gathered as one number; more as the first 8 and the last 8, which
 * overlap. */
static inline near__wide near__word16_gather(const void *from, struct near__span s)
{
	unsigned before = 8 * s.at, behind = 8 * (16 - s.at - s.n);

	if (s.n < 8) {
		uint64_t value = near__word8_gather(from, s.n);

		return near__halves(value << before, value >> (64 - before));
	}
	return near__halves(*(const near__word8 *)from << before,
			    *(const near__word8 *)((const char *)from + s.n - 8) >> behind);
}

static inline void near__word16_spread(void *to, near__wide seen, struct near__span s)
{
	unsigned before = 8 * s.at, behind = 8 * (16 - s.at - s.n);
	uint64_t low = (uint64_t)seen, high = (uint64_t)(seen >> 64);
	/* Two shifts, since the distance is 64 if `before` or `behind` is 0. */
	uint64_t first = low >> before | high << (63 - before) << 1;
	uint64_t last = high << behind | low >> (63 - behind) >> 1;

	if (s.n < 8) {
		near__word8_spread(to, first, s.n);
		return;
	}
	*(near__word8 *)to = first;
	*(near__word8 *)((char *)to + s.n - 8) = last;
}

static inline void near__word16_load(size_t n, const void *p, void *out)
{
	near__wide seen =
		near__wide_load(near__wide_mode(), NEAR__WORD_AROUND(const near__wide, p));

	near__word16_spread(out, seen, near__span_of(p, n));
}

static inline void near__word16_exchange(size_t n, void *p, const void *in, void *out)
{
	near__wide *word = NEAR__WORD_AROUND(near__wide, p);
	struct near__span s = near__span_of(p, n);
	near__wide rest = ~near__word16_mask(s), value = near__word16_gather(in, s);
	near__wide seen = near__wide_guess(word);

	while (!near__wide_cas(near__wide_mode(), word, &seen, (seen & rest) | value))
		;
	if (out)
		near__word16_spread(out, seen, s);
}

static inline bool near__word16_compare_exchange(size_t n, void *p, void *expected, const void *in)
{
	near__wide *word = NEAR__WORD_AROUND(near__wide, p);
	struct near__span s = near__span_of(p, n);
	near__wide mask = near__word16_mask(s), wanted = near__word16_gather(expected, s);
	near__wide value = near__word16_gather(in, s);
	near__wide seen = near__wide_guess(word); /* only success confirms it */

	if ((seen & mask) != wanted)
		seen = near__wide_load(near__wide_mode(), word);
	do {
		if ((seen & mask) != wanted) {
			near__word16_spread(expected, seen, s);
			return false;
		}
	} while (!near__wide_cas(near__wide_mode(), word, &seen, (seen & ~mask) | value));
	return true;
}

#endif

#endif
