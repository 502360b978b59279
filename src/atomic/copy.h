/* SPDX-License-Identifier: MIT */
/* Copies and comparisons of objects. They may race with a writer; the caller then discards the
 * result. */
#ifndef NEARCPU_ATOMIC_COPY_H
#define NEARCPU_ATOMIC_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/tsan.h"

typedef uint64_t __attribute__((may_alias, aligned(1))) near__word8;
typedef uint32_t __attribute__((may_alias, aligned(1))) near__word4;
typedef uint16_t __attribute__((may_alias, aligned(1))) near__word2;

typedef unsigned char near__vector __attribute__((vector_size(16)));
typedef uint64_t near__pair __attribute__((vector_size(16)));
typedef near__vector __attribute__((may_alias, aligned(1))) near__word16;

/* Up to this size, each number of words has a path of its own. */
#define NEAR__COPY_MAX 64

/* In a switch over the number of words: performs `action` for the last word, then continues with
 * the words before it. */
#define NEAR__CASE(n, action)                                                                      \
	case n:                                                                                    \
		action((n)-1);                                                                     \
		__attribute__((fallthrough));

#define NEAR__COPY_WORD16(i) ((near__word16 *)to)[i] = ((const near__word16 *)from)[i]

/* Copies the last bytes, fewer than 8. */
static inline __attribute__((always_inline)) void
near__copy_tail(unsigned char *to, const unsigned char *from, size_t n)
{
	if (n & 4) {
		*(near__word4 *)to = *(const near__word4 *)from;
		to += 4, from += 4;
	}
	if (n & 2) {
		*(near__word2 *)to = *(const near__word2 *)from;
		to += 2, from += 2;
	}
	if (n & 1)
		*to = *from;
}

/* Copies fewer than 16 bytes. */
static inline __attribute__((always_inline)) void near__copy_rest(void *to, const void *from,
								  size_t n)
{
	if (n & 8)
		*(near__word8 *)to = *(const near__word8 *)from;
	if (n & 7)
		near__copy_tail((unsigned char *)to + (n & 8),
				(const unsigned char *)from + (n & 8), n & 7);
}

/* Copies at most NEAR__COPY_MAX bytes, in units of 16. */
static inline __attribute__((always_inline)) void near__copy_few(void *to, const void *from,
								 size_t n)
{
	size_t rest = n & 15;

	switch (n / 16) {
		NEAR__CASE(4, NEAR__COPY_WORD16)
		NEAR__CASE(3, NEAR__COPY_WORD16)
		NEAR__CASE(2, NEAR__COPY_WORD16)
		NEAR__CASE(1, NEAR__COPY_WORD16)
	case 0:
		break;
	}
	near__copy_rest((char *)to + n - rest, (const char *)from + n - rest, rest);
}

/* Copies more. ThreadSanitizer intercepts memcpy, and would report the race; the empty assembly
 * prevents the compiler from making the loop a memcpy. */
static inline void near__copy_many(unsigned char *to, const unsigned char *from, size_t n)
{
	if (!NEAR__TSAN_HERE) {
		memcpy(to, from, n);
		return;
	}
	for (; n > NEAR__COPY_MAX; n -= 64, to += 64, from += 64) {
		near__copy_few(to, from, 64);
		__asm__ volatile("" : : : "memory");
	}
	near__copy_few(to, from, n);
}

/* Copies from an object. */
static inline __attribute__((always_inline)) void near__copy(void *to, const void *from, size_t n)
{
	if (n > NEAR__COPY_MAX)
		near__copy_many(to, from, n);
	else
		near__copy_few(to, from, n);
}

/* Copies two words by two loads and one store. The caller usually wrote the words, one by one, just
 * before; one load of both would wait until they have left the CPU's store buffer. Volatile keeps
 * the loads apart. */
static inline __attribute__((always_inline)) void near__copy_pair(void *to, const void *from)
{
	const volatile near__word8 *word = from;
	near__pair pair = {word[0], word[1]};

	*(near__word16 *)to = (near__vector)pair;
}

#define NEAR__COPY_PAIR(i) near__copy_pair((char *)to + 16 * (i), (const char *)from + 16 * (i))

/* Copies to an object. */
static inline __attribute__((always_inline)) void near__copy_words(void *to, const void *from,
								   size_t n)
{
	size_t rest = n & 15;

	if (n > NEAR__COPY_MAX) {
		near__copy_many(to, from, n);
		return;
	}
	switch (n / 16) {
		NEAR__CASE(4, NEAR__COPY_PAIR)
		NEAR__CASE(3, NEAR__COPY_PAIR)
		NEAR__CASE(2, NEAR__COPY_PAIR)
		NEAR__CASE(1, NEAR__COPY_PAIR)
	case 0:
		break;
	}
	near__copy_rest((char *)to + n - rest, (const char *)from + n - rest, rest);
}

#define NEAR__ADD_BITS(i) bits |= ((const near__word8 *)a)[i] ^ ((const near__word8 *)b)[i]

static inline bool near__same_many(const unsigned char *x, const unsigned char *y, size_t n)
{
	uint64_t bits = 0;

	if (!NEAR__TSAN_HERE)
		return memcmp(x, y, n) == 0;
	for (; n >= 8; n -= 8, x += 8, y += 8)
		bits |= *(const near__word8 *)x ^ *(const near__word8 *)y;
	for (; n; n--)
		bits |= *x++ ^ *y++;
	return bits == 0;
}

/* There is no branch for each word, since the words are nearly always the same. */
static inline __attribute__((always_inline)) bool near__same(const void *a, const void *b, size_t n)
{
	uint64_t bits = 0;

	if (n > NEAR__COPY_MAX)
		return near__same_many(a, b, n);
	switch (n / 8) {
		NEAR__CASE(8, NEAR__ADD_BITS)
		NEAR__CASE(7, NEAR__ADD_BITS)
		NEAR__CASE(6, NEAR__ADD_BITS)
		NEAR__CASE(5, NEAR__ADD_BITS)
		NEAR__CASE(4, NEAR__ADD_BITS)
		NEAR__CASE(3, NEAR__ADD_BITS)
		NEAR__CASE(2, NEAR__ADD_BITS)
		NEAR__CASE(1, NEAR__ADD_BITS)
	case 0:
		break;
	}
	for (size_t i = n / 8 * 8; i < n; i++)
		bits |= ((const unsigned char *)a)[i] ^ ((const unsigned char *)b)[i];
	return bits == 0;
}

#endif
