/* SPDX-License-Identifier: MIT */
/* The table of the functions for one size. */
#include "calls.h"

/* raw_WHAT_N is the library's function, WHAT_N calls it with values of 128 bits. */
#define RAW(n, what) __asm__("__atomic_" #what "_" #n)
#define FETCH(n, type, what)                                                                       \
	type raw_##what##_##n(void *p, type v, int order) RAW(n, what);                            \
	static call_value what##_##n(void *p, call_value v, int order)                             \
	{                                                                                          \
		return raw_##what##_##n(p, (type)v, order);                                        \
	}
#define OP(n, type, op) FETCH(n, type, fetch_##op) FETCH(n, type, op##_fetch)

#define CALLS(n, type)                                                                             \
	type raw_load_##n(const void *p, int order) RAW(n, load);                                  \
	void raw_store_##n(void *p, type v, int order) RAW(n, store);                              \
	bool raw_compare_exchange_##n(void *p, void *expected, type v, int success, int failure)   \
		RAW(n, compare_exchange);                                                          \
	bool raw_test_and_set_##n(void *p, int order) RAW(n, test_and_set);                        \
	static call_value load_##n(const void *p, int order)                                       \
	{                                                                                          \
		return raw_load_##n(p, order);                                                     \
	}                                                                                          \
	static void store_##n(void *p, call_value v, int order)                                    \
	{                                                                                          \
		raw_store_##n(p, (type)v, order);                                                  \
	}                                                                                          \
	static bool compare_exchange_##n(void *p, call_value *expected, call_value v, int success, \
					 int failure)                                              \
	{                                                                                          \
		type guarded[3] = {(type)~v, (type)*expected, (type)~v};                           \
		bool done = raw_compare_exchange_##n(p, &guarded[1], (type)v, success, failure);   \
                                                                                                   \
		if (guarded[0] != (type)~v || guarded[2] != (type)~v)                              \
			__builtin_trap();                                                          \
		*expected = guarded[1];                                                            \
		return done;                                                                       \
	}                                                                                          \
	FETCH(n, type, exchange)                                                                   \
	OP(n, type, add)                                                                           \
	OP(n, type, sub)                                                                           \
	OP(n, type, and)                                                                           \
	OP(n, type, or)                                                                            \
	OP(n, type, xor)                                                                           \
	OP(n, type, nand)

CALLS(1, uint8_t)
CALLS(2, uint16_t)
CALLS(4, uint32_t)
CALLS(8, uint64_t)
CALLS(16, call_value)

#define OPS(n, before, after)                                                                      \
	{                                                                                          \
		before##add##after##_##n, before##sub##after##_##n, before##and##after##_##n,      \
			before## or ##after##_##n, before## xor ##after##_##n,                     \
			before##nand##after##_##n                                                  \
	}
#define TABLE(n)                                                                                   \
	{                                                                                          \
		n, load_##n, store_##n, exchange_##n, compare_exchange_##n, raw_test_and_set_##n,  \
			OPS(n, fetch_, ), OPS(n, , _fetch)                                         \
	}

const struct sized_calls sized_calls[CALL_SIZES] = {TABLE(1), TABLE(2), TABLE(4), TABLE(8),
						    TABLE(16)};
