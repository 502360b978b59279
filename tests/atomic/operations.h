/* SPDX-License-Identifier: MIT */
/* operations: one call of libatomic as data, for tests in which threads and signal handlers make
 * random ones; and its effect on plain memory, which is the expected one. */
#ifndef NEARCPU_TESTS_OPERATIONS_H
#define NEARCPU_TESTS_OPERATIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "calls.h"

enum operation_kind {
	OP_LOAD,
	OP_STORE,
	OP_EXCHANGE,
	OP_CAS,
	OP_GENERIC_KINDS, /* those above exist for all sizes, those below only for 1 to 16 bytes */
	OP_FETCH_ADD = OP_GENERIC_KINDS,
	OP_ADD_FETCH,
	OP_FETCH_SUB,
	OP_FETCH_OR,
	OP_FETCH_AND,
	OP_FETCH_XOR,
	OP_FETCH_NAND,
	OP_KINDS
};

#define OP_MAX 320u /* bytes of the largest object */

struct place {
	unsigned at, size; /* of an object in its arena */
	bool sized;        /* it is used by the functions for its size: 1, 2, 4, 8, 16 */
};

struct operation {
	enum operation_kind kind;
	bool sized;                     /* by the function for this size: 1, 2, 4, 8, 16 */
	unsigned at, size;              /* where the object is in its arena */
	unsigned char value[OP_MAX];    /* what is stored, or the operand */
	unsigned char expected[OP_MAX]; /* of OP_CAS; what was there if it fails */
	unsigned char result[OP_MAX];   /* of the other kinds */
	bool swapped;                   /* of OP_CAS */
};

extern const char *const operation_names[OP_KINDS];
extern const enum call_op operation_ops[OP_KINDS]; /* of those from OP_FETCH_ADD on */

/* Calls the library. */
void operation_run(struct operation *op, void *arena);

/* Changes memory that no other thread uses. */
void operation_model(struct operation *op, void *arena);

/* Whether both returned the same. */
bool operation_same(const struct operation *a, const struct operation *b);

void operation_print(FILE *out, const struct operation *op);

#endif
