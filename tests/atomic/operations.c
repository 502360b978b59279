/* SPDX-License-Identifier: MIT */
/* Operations as data: by the library, and on plain memory. */
#include "operations.h"

#include <string.h>

#define SEQ_CST __ATOMIC_SEQ_CST

const char *const operation_names[OP_KINDS] = {
	"load",      "store",    "exchange",  "compare_exchange", "fetch_add",  "add_fetch",
	"fetch_sub", "fetch_or", "fetch_and", "fetch_xor",        "fetch_nand",
};

const enum call_op operation_ops[OP_KINDS] = {
	[OP_FETCH_ADD] = CALL_ADD,   [OP_ADD_FETCH] = CALL_ADD, [OP_FETCH_SUB] = CALL_SUB,
	[OP_FETCH_OR] = CALL_OR,     [OP_FETCH_AND] = CALL_AND, [OP_FETCH_XOR] = CALL_XOR,
	[OP_FETCH_NAND] = CALL_NAND,
};

static void run_sized(struct operation *op, void *object)
{
	const struct sized_calls *c = call_sized(op->size);
	call_value value = call_get(c->n, op->value), expected = call_get(c->n, op->expected);
	call_value result = 0;

	if (op->kind == OP_LOAD)
		result = c->load(object, SEQ_CST);
	else if (op->kind == OP_STORE)
		c->store(object, value, SEQ_CST);
	else if (op->kind == OP_EXCHANGE)
		result = c->exchange(object, value, SEQ_CST);
	else if (op->kind == OP_CAS)
		op->swapped = c->compare_exchange(object, &expected, value, SEQ_CST, SEQ_CST);
	else if (op->kind == OP_ADD_FETCH)
		result = c->op_fetch[CALL_ADD](object, value, SEQ_CST);
	else
		result = c->fetch_op[operation_ops[op->kind]](object, value, SEQ_CST);
	call_put(c->n, op->expected, expected);
	call_put(c->n, op->result, result);
}

void operation_run(struct operation *op, void *arena)
{
	char *object = (char *)arena + op->at;

	if (op->sized)
		run_sized(op, object);
	else if (op->kind == OP_LOAD)
		call_load(op->size, object, op->result, SEQ_CST);
	else if (op->kind == OP_STORE)
		call_store(op->size, object, op->value, SEQ_CST);
	else if (op->kind == OP_EXCHANGE)
		call_exchange(op->size, object, op->value, op->result, SEQ_CST);
	else
		op->swapped = call_compare_exchange(op->size, object, op->expected, op->value,
						    SEQ_CST, SEQ_CST);
}

static void model_fetch(struct operation *op, unsigned char *object)
{
	call_value old = call_get(op->size, object);
	call_value new = call_apply(operation_ops[op->kind], old, call_get(op->size, op->value));

	call_put(op->size, op->result, op->kind == OP_ADD_FETCH ? new : old);
	call_put(op->size, object, new);
}

void operation_model(struct operation *op, void *arena)
{
	unsigned char *object = (unsigned char *)arena + op->at;

	if (op->kind >= OP_GENERIC_KINDS) {
		model_fetch(op, object);
	} else if (op->kind == OP_CAS) {
		op->swapped = memcmp(object, op->expected, op->size) == 0;
		if (op->swapped)
			memcpy(object, op->value, op->size);
		else
			memcpy(op->expected, object, op->size);
	} else {
		if (op->kind != OP_STORE)
			memcpy(op->result, object, op->size);
		if (op->kind != OP_LOAD)
			memcpy(object, op->value, op->size);
	}
}

bool operation_same(const struct operation *a, const struct operation *b)
{
	if (a->kind == OP_CAS)
		return a->swapped == b->swapped && memcmp(a->expected, b->expected, a->size) == 0;
	return a->kind == OP_STORE || memcmp(a->result, b->result, a->size) == 0;
}

void operation_print(FILE *out, const struct operation *op)
{
	fprintf(out, "%s%s of %u bytes at %u", operation_names[op->kind], op->sized ? "_N" : "",
		op->size, op->at);
	if (op->kind == OP_CAS)
		fprintf(out, " (%s)", op->swapped ? "swapped" : "failed");
}
