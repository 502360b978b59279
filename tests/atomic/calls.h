/* SPDX-License-Identifier: MIT */
/* The functions of libatomic under names that compilers do not know, so that these generate calls.
 * The functions for one size have the same prototypes for all sizes here, with values of 128
 * bits. */
#ifndef NEARCPU_TESTS_ATOMIC_CALLS_H
#define NEARCPU_TESTS_ATOMIC_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 call_value;

/* The memory orders: __ATOMIC_RELAXED to __ATOMIC_SEQ_CST, and those for a failed comparison. */
#define CALL_ORDERS 6
#define CALL_FAILURE_ORDERS 4

/* ---- of any size ---- */

void call_load(size_t n, const void *p, void *to, int order) __asm__("__atomic_load");
void call_store(size_t n, void *p, const void *from, int order) __asm__("__atomic_store");
void call_exchange(size_t n, void *p, const void *from, void *to,
		   int order) __asm__("__atomic_exchange");
bool call_compare_exchange(size_t n, void *p, void *expected, const void *desired, int success,
			   int failure) __asm__("__atomic_compare_exchange");
bool call_is_lock_free(size_t n, const void *p) __asm__("__atomic_is_lock_free");

/* ---- the rest ---- */

void call_feraiseexcept(int exceptions) __asm__("__atomic_feraiseexcept");
void call_thread_fence(int order) __asm__("atomic_thread_fence");
void call_signal_fence(int order) __asm__("atomic_signal_fence");
bool call_flag_set(volatile void *flag) __asm__("atomic_flag_test_and_set");
bool call_flag_set_in(volatile void *flag, int order) __asm__("atomic_flag_test_and_set_explicit");
void call_flag_clear(volatile void *flag) __asm__("atomic_flag_clear");
void call_flag_clear_in(volatile void *flag, int order) __asm__("atomic_flag_clear_explicit");

/* ---- of one size ---- */

enum call_op { CALL_ADD, CALL_SUB, CALL_AND, CALL_OR, CALL_XOR, CALL_NAND, CALL_OPS };

typedef call_value (*call_fetch)(void *p, call_value v, int order);
struct sized_calls {
	size_t n;
	call_value (*load)(const void *p, int order);
	void (*store)(void *p, call_value v, int order);
	call_fetch exchange;
	bool (*compare_exchange)(void *p, call_value *expected, call_value v, int success,
				 int failure);
	bool (*test_and_set)(void *p, int order);
	call_fetch fetch_op[CALL_OPS], op_fetch[CALL_OPS]; /* the old value; the new one */
};

#define CALL_SIZES 5
extern const struct sized_calls sized_calls[CALL_SIZES]; /* 1, 2, 4, 8, 16 */

static inline const struct sized_calls *call_sized(size_t n)
{
	return &sized_calls[__builtin_ctzl(n)];
}

/* What an operation makes of the object's value a and the operand b. */
static inline call_value call_apply(enum call_op op, call_value a, call_value b)
{
	const call_value results[CALL_OPS] = {a + b, a - b, a & b, a | b, a ^ b, ~(a & b)};

	return results[op];
}

/* The number of the n bytes at p; and the reverse. */
#define CALL_FIRST(n) (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(call_value) - (n) : 0)

static inline call_value call_get(size_t n, const void *p)
{
	call_value v = 0;

	memcpy((char *)&v + CALL_FIRST(n), p, n);
	return v;
}

static inline void call_put(size_t n, void *p, call_value v)
{
	memcpy(p, (const char *)&v + CALL_FIRST(n), n);
}

/* The n low bytes of v. */
static inline call_value call_low(call_value v, size_t n)
{
	return n == 16 ? v : v & (((call_value)1 << 8 * n) - 1);
}

#endif
