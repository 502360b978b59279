/* SPDX-License-Identifier: MIT */
/* calls: the calls that a compiler makes for an atomic object of some size; and numbers in objects.
 *
 * `kind` is a constant wherever these are inlined, so that a loop has one call and no switch. A
 * value of more than 8 bytes contains its number at its start and at its end, so a torn one is
 * noticed. */
#ifndef BENCH_ATOMIC_CALLS_H
#define BENCH_ATOMIC_CALLS_H

#include "atomic/library.h"

#include <string.h>

/* A size has functions of its own, or uses the generic ones. */
enum kind {
	SIZED_1,
	SIZED_4,
	SIZED_8,
	SIZED_16,
	GENERIC_3,
	GENERIC_12,
	GENERIC_16,
	GENERIC_24,
	GENERIC_64,
	GENERIC,
	KINDS
};

#define INLINE static inline __attribute__((always_inline))
#define MAX_NEAR 64 /* bytes of the largest object that has a kind of its own */
#define ORDER __ATOMIC_SEQ_CST

/* A constant if the compiler knows the size. */
INLINE size_t call_size(enum kind kind, size_t size)
{
	static const size_t known[KINDS] = {1, 4, 8, 16, 3, 12, 16, 24, 64, 0};

	return kind == GENERIC ? size : known[kind];
}

#define CALL_SIZED(n, type, call)                                                                  \
	case SIZED_##n: {                                                                          \
		type one;                                                                          \
                                                                                                   \
		call;                                                                              \
	} break;

INLINE void call_load(enum kind kind, size_t size, const void *p, void *out)
{
#define CASE(n, type) CALL_SIZED(n, type, one = library.load_##n(p, ORDER); memcpy(out, &one, n))
	switch (kind) {
		LIBRARY_SIZES(CASE)
	default:
		library.load(call_size(kind, size), p, out, ORDER);
	}
#undef CASE
}

INLINE void call_store(enum kind kind, size_t size, void *p, const void *value)
{
#define CASE(n, type) CALL_SIZED(n, type, memcpy(&one, value, n); library.store_##n(p, one, ORDER))
	switch (kind) {
		LIBRARY_SIZES(CASE)
	default:
		library.store(call_size(kind, size), p, value, ORDER);
	}
#undef CASE
}

INLINE void call_exchange(enum kind kind, size_t size, void *p, const void *value, void *out)
{
#define CASE(n, type)                                                                              \
	CALL_SIZED(n, type, memcpy(&one, value, n); one = library.exchange_##n(p, one, ORDER);     \
		   memcpy(out, &one, n))
	switch (kind) {
		LIBRARY_SIZES(CASE)
	default:
		library.exchange(call_size(kind, size), p, value, out, ORDER);
	}
#undef CASE
}

INLINE bool call_cas(enum kind kind, size_t size, void *p, void *expected, const void *value)
{
	bool same = false;

#define CASE(n, type)                                                                              \
	CALL_SIZED(n, type, memcpy(&one, value, n);                                                \
		   same = library.cas_##n(p, expected, one, ORDER, ORDER))
	switch (kind) {
		LIBRARY_SIZES(CASE)
	default:
		same = library.cas(call_size(kind, size), p, expected, value, ORDER, ORDER);
	}
#undef CASE
	return same;
}

/* Only for sizes that have functions of their own. */
INLINE void call_add(enum kind kind, void *p, uint32_t n)
{
#define CASE(n_, type) CALL_SIZED(n_, type, one = (type)n; library.add_##n_(p, one, ORDER))
	switch (kind) {
		LIBRARY_SIZES(CASE)
	default:
		break;
	}
#undef CASE
}

/* Numbers are stored and compared modulo the range of the object. They are written and read by
 * whole words, as the fields of a struct are: a word that is written in halves and then read as a
 * whole costs the CPU more than many of the operations here. */
INLINE uint32_t number_mask(size_t size) { return UINT32_MAX >> (size < 4 ? 32 - 8 * size : 0); }

INLINE uint64_t word_at(const char *value, size_t size, bool last)
{
	uint64_t wide;
	uint32_t n;

	if (size % sizeof(wide) == 0) {
		memcpy(&wide, value + (last ? size - sizeof(wide) : 0), sizeof(wide));
		return wide;
	}
	memcpy(&n, value + (last ? size - sizeof(n) : 0), sizeof(n));
	return n;
}

INLINE uint32_t number_at(const void *value, size_t size)
{
	const unsigned char *bytes = value;

	if (size == 1)
		return bytes[0];
	if (size == 3) /* no integer type has this size */
		return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;
	return (uint32_t)word_at(value, size, false);
}

INLINE void number_set(void *value, size_t size, uint32_t n)
{
	uint64_t wide = n;
	char *bytes = value;

	if (size < 4) {
		for (size_t i = 0; i < size; i++)
			bytes[i] = (char)(n >> 8 * i);
	} else if (size % sizeof(wide) == 0) {
		memcpy(bytes, &wide, sizeof(wide));
		memcpy(bytes + size - sizeof(wide), &wide, sizeof(wide));
	} else {
		memcpy(bytes, &n, sizeof(n));
		memcpy(bytes + size - sizeof(n), &n, sizeof(n));
	}
}

INLINE bool number_is_torn(const void *value, size_t size)
{
	return size > 8 && word_at(value, size, false) != word_at(value, size, true);
}

#endif
