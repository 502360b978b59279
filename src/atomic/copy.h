/* SPDX-License-Identifier: MIT */
/* Copies and comparisons of objects. Words, one by one: values are written a word at a time shortly
 * before they are stored, and a wider load of several fresh words waits until they have left the
 * CPU's store buffer. Reading here may race with a writer; what came of it is thrown away then. */
#ifndef NEARCPU_ATOMIC_COPY_H
#define NEARCPU_ATOMIC_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t __attribute__((may_alias, aligned(1))) near__word8;
typedef uint32_t __attribute__((may_alias, aligned(1))) near__word4;
typedef uint16_t __attribute__((may_alias, aligned(1))) near__word2;

/* Beyond that memcpy is faster. */
#define NEAR__COPY_MAX 64

#define NEAR__COPY_WORD(i) (((near__word8 *)to)[i] = ((const near__word8 *)from)[i])

/* The last `n` bytes, fewer than 8, behind whole words. */
static inline void near__copy_tail(unsigned char *to, const unsigned char *from, size_t n)
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

static inline __attribute__((always_inline)) void near__copy(void *to, const void *from, size_t n)
{
	if (n > NEAR__COPY_MAX) {
		memcpy(to, from, n);
		return;
	}
	switch (n / 8) {
	case 8:
		NEAR__COPY_WORD(7);
		__attribute__((fallthrough));
	case 7:
		NEAR__COPY_WORD(6);
		__attribute__((fallthrough));
	case 6:
		NEAR__COPY_WORD(5);
		__attribute__((fallthrough));
	case 5:
		NEAR__COPY_WORD(4);
		__attribute__((fallthrough));
	case 4:
		NEAR__COPY_WORD(3);
		__attribute__((fallthrough));
	case 3:
		NEAR__COPY_WORD(2);
		__attribute__((fallthrough));
	case 2:
		NEAR__COPY_WORD(1);
		__attribute__((fallthrough));
	case 1:
		NEAR__COPY_WORD(0);
	}
	if (n % 8)
		near__copy_tail((unsigned char *)to + n / 8 * 8,
				(const unsigned char *)from + n / 8 * 8, n % 8);
}

static inline bool near__same(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	if (n > NEAR__COPY_MAX)
		return memcmp(x, y, n) == 0;
	for (; n >= 8; n -= 8, x += 8, y += 8)
		if (*(const near__word8 *)x != *(const near__word8 *)y)
			return false;
	for (; n; n--)
		if (*x++ != *y++)
			return false;
	return true;
}

#endif
