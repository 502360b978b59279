/* SPDX-License-Identifier: MIT */
/* bits: bit i of an array of words, and multiples. */
#ifndef NEARCPU_BITS_H
#define NEARCPU_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many words have n bits. */
static inline size_t near__bit_words(size_t n)
{
	return (n + 63) / 64;
}

static inline uint64_t near__bit_of(size_t i)
{
	return (uint64_t)1 << i % 64;
}

/* ---- of one thread, or with a lock ---- */

static inline bool near__bit(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static inline void near__bit_set(uint64_t *bits, size_t i)
{
	bits[i / 64] |= near__bit_of(i);
}

static inline void near__bit_clear(uint64_t *bits, size_t i)
{
	bits[i / 64] &= ~near__bit_of(i);
}

/* ---- of several: macros, since the order is a constant of the compiler ---- */

#define NEAR__BIT_LOAD(bits, i, order)                                                             \
	((bool)(__atomic_load_n(&(bits)[(i) / 64], order) >> (i) % 64 & 1))
#define NEAR__BIT_SET(bits, i, order) __atomic_fetch_or(&(bits)[(i) / 64], near__bit_of(i), order)
#define NEAR__BIT_CLEAR(bits, i, order)                                                            \
	__atomic_fetch_and(&(bits)[(i) / 64], ~near__bit_of(i), order)

/* Whether one of bits *i to n - 1 is set; *i becomes the first. Bits from n on are 0. Acquire:
 * pairs with the release of the thread that set it. */
static inline bool near__bit_next(const uint64_t *bits, unsigned n, unsigned *i)
{
	for (unsigned at = *i; at < n; at = (at | 63) + 1) {
		uint64_t left = __atomic_load_n(&bits[at / 64], __ATOMIC_ACQUIRE) >> at % 64;

		if (left) {
			*i = at + (unsigned)__builtin_ctzll(left);
			return true;
		}
	}
	return false;
}

/* ---- multiples ---- */

/* `unit` is a power of two. */
static inline uint64_t near__round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) & ~(unit - 1);
}

#endif
