/* SPDX-License-Identifier: MIT */
/* The functions for one size each, by the CPU's instructions (NEAR__NATIVE) or by compare-exchanges
 * (NEAR__LOOP). The caller passes an object that is aligned to its size, as GCC documents it.
 *
 * Memory orders: a load and a read-modify-write are sequentially consistent for all orders; a store
 * only for that order, since it costs more then. */
#ifndef NEARCPU_ATOMIC_SIZED_H
#define NEARCPU_ATOMIC_SIZED_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic/word.h"

#define NEAR__NAMED(name) __asm__(#name)
#define NEAR__SIZED __attribute__((visibility("default")))

/* Defines `symbol` under the name `function`: compilers have built-in functions of the symbols'
 * names, with other parameters. */
#define NEAR__DEFINE(result, function, symbol, parameters)                                         \
	NEAR__SIZED result function parameters NEAR__NAMED(symbol);                                \
	result function parameters

/* The new value, of the old one and the operand. */
#define NEAR__RESULT_add(seen, operand) ((seen) + (operand))
#define NEAR__RESULT_sub(seen, operand) ((seen) - (operand))
#define NEAR__RESULT_and(seen, operand) ((seen) & (operand))
#define NEAR__RESULT_or(seen, operand) ((seen) | (operand))
#define NEAR__RESULT_xor(seen, operand) ((seen) ^ (operand))
#define NEAR__RESULT_nand(seen, operand) (~((seen) & (operand)))

#define NEAR__FOR_EACH_OPERATION(x, n, type)                                                       \
	x(n, type, add) x(n, type, sub) x(n, type, and) x(n, type, or) x(n, type, xor)             \
		x(n, type, nand)

/* ---- by instructions ---- */

#define NEAR__NATIVE_FETCH(n, type, op)                                                            \
	NEAR__DEFINE(type, near__fetch_##op##_##n, __atomic_fetch_##op##_##n,                      \
		     (volatile void *p, type operand, int order))                                  \
	{                                                                                          \
		(void)order;                                                                       \
		return __atomic_fetch_##op((type *)p, operand, __ATOMIC_SEQ_CST);                  \
	}                                                                                          \
	NEAR__DEFINE(type, near__##op##_fetch_##n, __atomic_##op##_fetch_##n,                      \
		     (volatile void *p, type operand, int order))                                  \
	{                                                                                          \
		(void)order;                                                                       \
		return __atomic_##op##_fetch((type *)p, operand, __ATOMIC_SEQ_CST);                \
	}

#define NEAR__NATIVE(n, type)                                                                      \
	NEAR__DEFINE(type, near__load_##n, __atomic_load_##n, (const volatile void *p, int order)) \
	{                                                                                          \
		(void)order;                                                                       \
		return __atomic_load_n((const type *)p, __ATOMIC_SEQ_CST);                         \
	}                                                                                          \
	NEAR__DEFINE(void, near__store_##n, __atomic_store_##n,                                    \
		     (volatile void *p, type value, int order))                                    \
	{                                                                                          \
		if (near__is_sc(order))                                                            \
			__atomic_store_n((type *)p, value, __ATOMIC_SEQ_CST);                      \
		else                                                                               \
			__atomic_store_n((type *)p, value, __ATOMIC_RELEASE);                      \
	}                                                                                          \
	NEAR__DEFINE(type, near__exchange_##n, __atomic_exchange_##n,                              \
		     (volatile void *p, type value, int order))                                    \
	{                                                                                          \
		(void)order;                                                                       \
		return __atomic_exchange_n((type *)p, value, __ATOMIC_SEQ_CST);                    \
	}                                                                                          \
	NEAR__DEFINE(bool, near__compare_exchange_##n, __atomic_compare_exchange_##n,              \
		     (volatile void *p, void *expected, type value, int success, int failure))     \
	{                                                                                          \
		(void)success, (void)failure;                                                      \
		return NEAR__NATIVE_CAS((type *)p, (type *)expected, value);                       \
	}                                                                                          \
	NEAR__FOR_EACH_OPERATION(NEAR__NATIVE_FETCH, n, type)

/* ---- by compare-exchange ---- */

#define NEAR__LOOP_FETCH(n, type, op)                                                              \
	NEAR__DEFINE(type, near__fetch_##op##_##n, __atomic_fetch_##op##_##n,                      \
		     (volatile void *p, type operand, int order))                                  \
	{                                                                                          \
		type seen = near__guess_##n(p);                                                    \
                                                                                                   \
		(void)order;                                                                       \
		while (!near__cas_##n(p, &seen, (type)NEAR__RESULT_##op(seen, operand)))           \
			;                                                                          \
		return seen;                                                                       \
	}                                                                                          \
	NEAR__DEFINE(type, near__##op##_fetch_##n, __atomic_##op##_fetch_##n,                      \
		     (volatile void *p, type operand, int order))                                  \
	{                                                                                          \
		type seen = near__fetch_##op##_##n(p, operand, order);                             \
                                                                                                   \
		return (type)NEAR__RESULT_##op(seen, operand);                                     \
	}

/* Requires near__read_N, near__write_N, near__cas_N, and near__guess_N, whose result need not be
 * the value of the object. */
#define NEAR__LOOP(n, type)                                                                        \
	NEAR__DEFINE(type, near__load_##n, __atomic_load_##n, (const volatile void *p, int order)) \
	{                                                                                          \
		(void)order;                                                                       \
		return near__read_##n(p);                                                          \
	}                                                                                          \
	NEAR__DEFINE(void, near__store_##n, __atomic_store_##n,                                    \
		     (volatile void *p, type value, int order))                                    \
	{                                                                                          \
		near__write_##n(p, value, order);                                                  \
	}                                                                                          \
	NEAR__DEFINE(type, near__exchange_##n, __atomic_exchange_##n,                              \
		     (volatile void *p, type value, int order))                                    \
	{                                                                                          \
		type seen = near__guess_##n(p);                                                    \
                                                                                                   \
		(void)order;                                                                       \
		while (!near__cas_##n(p, &seen, value))                                            \
			;                                                                          \
		return seen;                                                                       \
	}                                                                                          \
	NEAR__DEFINE(bool, near__compare_exchange_##n, __atomic_compare_exchange_##n,              \
		     (volatile void *p, void *expected, type value, int success, int failure))     \
	{                                                                                          \
		(void)success, (void)failure;                                                      \
		return near__cas_##n(p, expected, value);                                          \
	}                                                                                          \
	NEAR__FOR_EACH_OPERATION(NEAR__LOOP_FETCH, n, type)

#endif
