/* SPDX-License-Identifier: MIT */
/* acts: one call of libatomic as data, for tests that let threads and signal handlers make random
 * ones; and what it does to plain memory, which says what is right.
 *
 * The functions are called by their names in the library: no compiler puts anything in their
 * place. */
#ifndef NEARCPU_TESTS_ACTS_H
#define NEARCPU_TESTS_ACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum act_kind {
	ACT_LOAD,
	ACT_STORE,
	ACT_EXCHANGE,
	ACT_CAS,
	ACT_GENERIC_KINDS, /* those above are there for any size, those below for sized ones only */
	ACT_FETCH_ADD = ACT_GENERIC_KINDS,
	ACT_ADD_FETCH,
	ACT_FETCH_SUB,
	ACT_FETCH_OR,
	ACT_FETCH_AND,
	ACT_FETCH_XOR,
	ACT_FETCH_NAND,
	ACT_KINDS
};

#define ACT_MAX 320u /* bytes of the largest object */

struct act {
	enum act_kind kind;
	bool sized;                      /* by the function for this size: 1, 2, 4, 8, 16 */
	unsigned at, size;               /* where the object is in its arena */
	unsigned char value[ACT_MAX];    /* what is stored, or the operand */
	unsigned char expected[ACT_MAX]; /* of ACT_CAS; what was there if it fails */
	unsigned char result[ACT_MAX];   /* what the others give back */
	bool swapped;                    /* of ACT_CAS */
};

/* The functions for any size, by their names in the library. */
void atomic_load_any(size_t n, const void *object, void *result,
		     int order) __asm__("__atomic_load");
void atomic_store_any(size_t n, void *object, void *value, int order) __asm__("__atomic_store");
void atomic_exchange_any(size_t n, void *object, void *value, void *result,
			 int order) __asm__("__atomic_exchange");
bool atomic_cas_any(size_t n, void *object, void *expected, void *desired, int success,
		    int failure) __asm__("__atomic_compare_exchange");

extern const char *const act_names[ACT_KINDS];

/* Does it by the library. */
void act_run(struct act *act, void *arena);

/* Does it to memory that nobody else uses. */
void act_model(struct act *act, void *arena);

/* Whether both gave the same back. */
bool act_gave_same(const struct act *a, const struct act *b);

void act_print(FILE *out, const struct act *act);

#endif
