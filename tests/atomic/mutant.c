/* SPDX-License-Identifier: MIT */
/* A libatomic of one lock with faults, for the tests that must find them. NEAR_MUTANT is
 *   none   nothing is wrong
 *   bare   there are no locks
 *   load   loads take no lock
 *   store  stores take no lock
 *   cas    compare-exchanges compare in one section and store in another
 *   drain  a store of 16 bytes, which takes no lock, is not visible yet when it returns */
#include "calls.h"

#include <sched.h>
#include <string.h>

#include "mutant.h"

static int lock;
static bool bare, bare_load, bare_store, torn_cas, lazy;

__attribute__((constructor)) static void choose(void)
{
	bare = mutant_is("bare");
	bare_load = bare || mutant_is("load");
	bare_store = bare || mutant_is("store");
	torn_cas = mutant_is("cas");
	lazy = mutant_is("drain");
}

static void enter(bool without)
{
	for (unsigned spins = 1; !without && __atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE);
	     spins++)
		if (spins % 64 == 0)
			sched_yield();
}

static void leave(bool without)
{
	if (!without)
		__atomic_store_n(&lock, 0, __ATOMIC_SEQ_CST);
}

/* One instruction, where the CPU has such. */
static void copy_16(void *to, const void *from)
{
	typedef uint64_t vector __attribute__((vector_size(16), may_alias));
	vector value = *(const volatile vector *)from;

	*(volatile vector *)to = value;
}

void call_load(size_t n, const void *object, void *result, int order)
{
	_Alignas(16) unsigned char copy[16];

	if (lazy && n == 16) {
		copy_16(copy, object);
		memcpy(result, copy, 16);
		return;
	}
	enter(bare_load);
	memcpy(result, object, n);
	leave(bare_load);
}

void call_store(size_t n, void *object, const void *value, int order)
{
	_Alignas(16) unsigned char copy[16];

	if (lazy && n == 16) {
		memcpy(copy, value, 16);
		copy_16(object, copy);
		return;
	}
	enter(bare_store);
	memcpy(object, value, n);
	leave(bare_store);
}

void call_exchange(size_t n, void *object, const void *value, void *result, int order)
{
	enter(bare);
	memcpy(result, object, n);
	memcpy(object, value, n);
	leave(bare);
}

bool call_compare_exchange(size_t n, void *object, void *expected, const void *desired, int success,
			   int failure)
{
	bool same;

	enter(bare);
	same = memcmp(object, expected, n) == 0;
	if (!same)
		memcpy(expected, object, n);
	if (torn_cas) {
		leave(bare);
		enter(bare);
	}
	if (same)
		memcpy(object, desired, n);
	leave(bare);
	return same;
}

/* Declares the function under the name that compilers do not know, and begins its definition. */
#define SIZED(type, name, n, ...)                                                                  \
	type name##_##n(__VA_ARGS__) __asm__("__atomic_" #name "_" #n);                            \
	type name##_##n(__VA_ARGS__)
#define FETCH(name, n, type, sum, given)                                                           \
	SIZED(type, name, n, void *object, type value, int order)                                  \
	{                                                                                          \
		type old, new;                                                                     \
                                                                                                   \
		enter(bare);                                                                       \
		memcpy(&old, object, n);                                                           \
		new = (type)(sum);                                                                 \
		memcpy(object, &new, n);                                                           \
		leave(bare);                                                                       \
		return given;                                                                      \
	}
#define OP(name, n, type, sum)                                                                     \
	FETCH(fetch_##name, n, type, sum, old)                                                     \
	FETCH(name##_fetch, n, type, sum, new)
#define ALL(n, type)                                                                               \
	SIZED(type, load, n, const void *object, int order)                                        \
	{                                                                                          \
		type result;                                                                       \
                                                                                                   \
		call_load(n, object, &result, order);                                              \
		return result;                                                                     \
	}                                                                                          \
	SIZED(void, store, n, void *object, type value, int order)                                 \
	{                                                                                          \
		call_store(n, object, &value, order);                                              \
	}                                                                                          \
	SIZED(bool, compare_exchange, n, void *object, void *expected, type desired, int success,  \
	      int failure)                                                                         \
	{                                                                                          \
		return call_compare_exchange(n, object, expected, &desired, success, failure);     \
	}                                                                                          \
	SIZED(bool, test_and_set, n, void *object, int order)                                      \
	{                                                                                          \
		unsigned char one = 1, old;                                                        \
                                                                                                   \
		call_exchange(1, object, &one, &old, order);                                       \
		return old != 0;                                                                   \
	}                                                                                          \
	FETCH(exchange, n, type, value, old)                                                       \
	OP(add, n, type, old + value)                                                              \
	OP(sub, n, type, old - value)                                                              \
	OP(or, n, type, old | value)                                                               \
	OP(and, n, type, old &value)                                                               \
	OP(xor, n, type, old ^ value)                                                              \
	OP(nand, n, type, ~(old & value))
ALL(1, uint8_t)
ALL(2, uint16_t)
ALL(4, uint32_t)
ALL(8, uint64_t)
ALL(16, call_value)
