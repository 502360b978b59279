/* SPDX-License-Identifier: MIT */
/* Objects within one aligned word: n bytes at `p`, changed by compare-exchanges of the word that
 * contains them. These store the bytes around the object unchanged, and fail if another thread has
 * changed them, so that its change is never lost. */
#ifndef NEARCPU_ATOMIC_WORD_H
#define NEARCPU_ATOMIC_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomic/copy.h"
#include "atomic/wide.h"

/* An order may contain bits that request lock elision on x86. */
static inline bool near__is_sc(int order)
{
	return __builtin_expect((order & 0xffff) == __ATOMIC_SEQ_CST, 1);
}

static inline bool near__within(const void *p, size_t n, size_t word)
{
	return ((uintptr_t)p & (word - 1)) + n <= word;
}

/* Whether the first byte in memory is the lowest of a number. */
#define NEAR__LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

#define NEAR__NATIVE_LOAD(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)

/* NEAR__LOW_HALF: a workaround for a compiler, see arch/riscv64.h. */
static inline bool near__cas4(uint32_t *p, uint32_t *expected, uint32_t desired)
{
	uint32_t seen = NEAR__LOW_HALF(*expected);
	bool done = __atomic_compare_exchange_n(p, &seen, desired, false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST);

	if (!done)
		*expected = seen;
	return done;
}

#define NEAR__NATIVE_CAS(p, expected, desired)                                                     \
	(sizeof(*(p)) == 4                                                                         \
		 ? near__cas4((uint32_t *)(p), (uint32_t *)(expected), (uint32_t)(desired))        \
		 : __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST,      \
					       __ATOMIC_SEQ_CST))

/* gather: the n bytes at p as a number. spread: the reverse. Both shift, as a copy on the stack
 * would be slow: a load waits for all stores of its bytes. shift: the position of the object's
 * lowest bit in the word; mask: n bytes of ones. */
#define NEAR__WORD_NUMBERS(name, type)                                                             \
	static inline type near__##name##_gather(const void *p, size_t n)                          \
	{                                                                                          \
		const unsigned char *from = p;                                                     \
		type value = 0;                                                                    \
		unsigned shift = 0;                                                                \
                                                                                                   \
		for (; !NEAR__LITTLE && n; n--)                                                    \
			value = value << 8 | *from++;                                              \
		for (; n >= sizeof(uint64_t); n -= 8, from += 8, shift += 64)                      \
			value |= (type) * (const near__word8 *)from << shift % (8 * sizeof(type)); \
		if (n & 4) {                                                                       \
			value |= (type) * (const near__word4 *)from << shift;                      \
			from += 4, shift += 32;                                                    \
		}                                                                                  \
		if (n & 2) {                                                                       \
			value |= (type) * (const near__word2 *)from << shift;                      \
			from += 2, shift += 16;                                                    \
		}                                                                                  \
		if (n & 1)                                                                         \
			value |= (type)*from << shift;                                             \
		return value;                                                                      \
	}                                                                                          \
                                                                                                   \
	static inline void near__##name##_spread(void *p, type value, size_t n)                    \
	{                                                                                          \
		unsigned char *to = p;                                                             \
                                                                                                   \
		for (; !NEAR__LITTLE && n; value >>= 8)                                            \
			to[--n] = (unsigned char)value;                                            \
		for (; n >= sizeof(uint64_t); n -= 8, to += 8, value >>= 64 % (8 * sizeof(type)))  \
			*(near__word8 *)to = (uint64_t)value;                                      \
		if (n & 4) {                                                                       \
			*(near__word4 *)to = (uint32_t)value;                                      \
			to += 4, value >>= 32 % (8 * sizeof(type));                                \
		}                                                                                  \
		if (n & 2) {                                                                       \
			*(near__word2 *)to = (uint16_t)value;                                      \
			to += 2, value >>= 16;                                                     \
		}                                                                                  \
		if (n & 1)                                                                         \
			*to = (unsigned char)value;                                                \
	}                                                                                          \
                                                                                                   \
	static inline unsigned near__##name##_shift(const void *p, size_t n)                       \
	{                                                                                          \
		size_t at = (uintptr_t)p & (sizeof(type) - 1);                                     \
                                                                                                   \
		return 8 * (unsigned)(NEAR__LITTLE ? at : sizeof(type) - at - n);                  \
	}                                                                                          \
                                                                                                   \
	static inline type near__##name##_mask(size_t n)                                           \
	{                                                                                          \
		return (type) ~(type)0 >> 8 * (sizeof(type) - n);                                  \
	}

#define NEAR__WORD_AROUND(type, p) ((type *)((uintptr_t)(p) & ~(uintptr_t)(sizeof(type) - 1)))

#define NEAR__WORD_OPERATIONS(name, type, LOAD, CAS)                                               \
	NEAR__WORD_NUMBERS(name, type)                                                             \
                                                                                                   \
	static inline void near__##name##_load(size_t n, const void *p, void *out)                 \
	{                                                                                          \
		type seen = LOAD(NEAR__WORD_AROUND(const type, p));                                \
                                                                                                   \
		near__##name##_spread(out, seen >> near__##name##_shift(p, n), n);                 \
	}                                                                                          \
                                                                                                   \
	/* in may be out. */                                                                       \
	static inline void near__##name##_exchange(size_t n, void *p, const void *in, void *out)   \
	{                                                                                          \
		type *word = NEAR__WORD_AROUND(type, p);                                           \
		unsigned at = near__##name##_shift(p, n);                                          \
		type rest = ~(near__##name##_mask(n) << at);                                       \
		type value = near__##name##_gather(in, n) << at;                                   \
		type seen = __atomic_load_n(word, __ATOMIC_RELAXED); /* a guess */                 \
                                                                                                   \
		while (!CAS(word, &seen, (type)((seen & rest) | value)))                           \
			;                                                                          \
		if (out)                                                                           \
			near__##name##_spread(out, seen >> at, n);                                 \
	}                                                                                          \
                                                                                                   \
	static inline bool near__##name##_compare_exchange(size_t n, void *p, void *expected,      \
							   const void *in)                         \
	{                                                                                          \
		type *word = NEAR__WORD_AROUND(type, p);                                           \
		unsigned at = near__##name##_shift(p, n);                                          \
		type mask = near__##name##_mask(n) << at;                                          \
		type wanted = near__##name##_gather(expected, n) << at;                            \
		type value = near__##name##_gather(in, n) << at;                                   \
		/* A guess, which only success confirms. */                                        \
		type seen = __atomic_load_n(word, __ATOMIC_RELAXED);                               \
                                                                                                   \
		if ((seen & mask) != wanted)                                                       \
			seen = LOAD(word);                                                         \
		do {                                                                               \
			if ((seen & mask) != wanted) {                                             \
				near__##name##_spread(expected, seen >> at, n);                    \
				return false;                                                      \
			}                                                                          \
		} while (!CAS(word, &seen, (type)((seen & (type)~mask) | value)));                 \
		return true;                                                                       \
	}

NEAR__WORD_OPERATIONS(word4, uint32_t, NEAR__NATIVE_LOAD, NEAR__NATIVE_CAS) /* NOLINT */
NEAR__WORD_OPERATIONS(word8, uint64_t, NEAR__NATIVE_LOAD, NEAR__NATIVE_CAS) /* NOLINT */

#endif
