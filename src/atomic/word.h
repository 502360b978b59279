/* SPDX-License-Identifier: MIT */
/* Objects that lie within one aligned word: n bytes at `p`, changed by compare-exchanges of the word that
 * contains them. The bytes around them are stored back as they were, at once with the object's; so a
 * neighbour's change is never lost. */
#ifndef NEARCPU_ATOMIC_WORD_H
#define NEARCPU_ATOMIC_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copy.h"
#include "wide.h"

static inline bool near__within(const void *p, size_t n, size_t word)
{
	return ((uintptr_t)p & (word - 1)) + n <= word;
}

/* At most 16 bytes. */
static inline void near__copy_part(void *to, const void *from, size_t n)
{
	/* The compiler does not know that n bytes are there. */
	__asm__("" : "+r"(to), "+r"(from));
	for (; n >= 8; n -= 8, to = (char *)to + 8, from = (const char *)from + 8)
		*(near__word8 *)to = *(const near__word8 *)from;
	near__copy_tail(to, from, n);
}

static inline bool near__same_part(const void *a, const void *b, size_t n)
{
	__asm__("" : "+r"(a), "+r"(b));
	return near__same(a, b, n);
}

#define NEAR__NATIVE_LOAD(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define NEAR__NATIVE_CAS(p, expected, desired)                                                     \
	__atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define NEAR__WIDE_LOAD(p) near__wide_load(near__wide_mode(), p)
#define NEAR__WIDE_CAS(p, expected, desired) near__wide_cas(near__wide_mode(), p, expected, desired)

/* The word that contains p, and p's place in it. */
#define NEAR__WORD_AT(type)                                                                        \
	size_t at = (uintptr_t)p & (sizeof(type) - 1);                                             \
	type *word = (type *)((uintptr_t)p - at)

#define NEAR__WORD_OPERATIONS(name, type, LOAD, CAS)                                               \
	static inline void near__##name##_load(size_t n, const void *p, void *out)                 \
	{                                                                                          \
		NEAR__WORD_AT(const type);                                                         \
		type seen = LOAD(word);                                                            \
                                                                                                   \
		near__copy_part(out, (char *)&seen + at, n);                                       \
	}                                                                                          \
                                                                                                   \
	/* in may be out. */                                                                       \
	static inline void near__##name##_exchange(size_t n, void *p, const void *in, void *out)   \
	{                                                                                          \
		NEAR__WORD_AT(type);                                                               \
		type seen = LOAD(word), next;                                                      \
                                                                                                   \
		do {                                                                               \
			next = seen;                                                               \
			near__copy_part((char *)&next + at, in, n);                                \
		} while (!CAS(word, &seen, next));                                                 \
		if (out)                                                                           \
			near__copy_part(out, (char *)&seen + at, n);                               \
	}                                                                                          \
                                                                                                   \
	static inline bool near__##name##_compare_exchange(size_t n, void *p, void *expected,      \
							   const void *in)                         \
	{                                                                                          \
		NEAR__WORD_AT(type);                                                               \
		type seen = LOAD(word), next;                                                      \
                                                                                                   \
		do {                                                                               \
			if (!near__same_part((char *)&seen + at, expected, n)) {                   \
				near__copy_part(expected, (char *)&seen + at, n);                  \
				return false;                                                      \
			}                                                                          \
			next = seen;                                                               \
			near__copy_part((char *)&next + at, in, n);                                \
		} while (!CAS(word, &seen, next));                                                 \
		return true;                                                                       \
	}

NEAR__WORD_OPERATIONS(word4, uint32_t, NEAR__NATIVE_LOAD, NEAR__NATIVE_CAS)
NEAR__WORD_OPERATIONS(word8, uint64_t, NEAR__NATIVE_LOAD, NEAR__NATIVE_CAS)
NEAR__WORD_OPERATIONS(word16, near__wide, NEAR__WIDE_LOAD, NEAR__WIDE_CAS)

#endif
