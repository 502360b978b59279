/* SPDX-License-Identifier: MIT */
#include "acts.h"

#include <string.h>

typedef unsigned __int128 uint128;

const char *const act_names[ACT_KINDS] = {
	"load",      "store",    "exchange",  "compare_exchange", "fetch_add",  "add_fetch",
	"fetch_sub", "fetch_or", "fetch_and", "fetch_xor",        "fetch_nand",
};

#define SEQ_CST __ATOMIC_SEQ_CST

/* The sized functions by their names in the library, and run_N, which calls the one of an act. */
#define FETCH(name, n, type)                                                                       \
	type name##_##n(void *object, type value, int order) __asm__("__atomic_" #name "_" #n)
#define SIZED(n, type)                                                                             \
	type load_##n(const void *object, int order) __asm__("__atomic_load_" #n);                 \
	void store_##n(void *object, type value, int order) __asm__("__atomic_store_" #n);         \
	FETCH(exchange, n, type);                                                                  \
	bool compare_exchange_##n(void *object, void *expected, type desired, int success,         \
				  int failure) __asm__("__atomic_compare_exchange_" #n);           \
	FETCH(fetch_add, n, type);                                                                 \
	FETCH(add_fetch, n, type);                                                                 \
	FETCH(fetch_sub, n, type);                                                                 \
	FETCH(fetch_or, n, type);                                                                  \
	FETCH(fetch_and, n, type);                                                                 \
	FETCH(fetch_xor, n, type);                                                                 \
	FETCH(fetch_nand, n, type);                                                                \
	static void run_##n(struct act *act, void *object)                                         \
	{                                                                                          \
		static type (*const fetches[ACT_KINDS])(void *, type, int) = {                     \
			[ACT_EXCHANGE] = exchange_##n,   [ACT_FETCH_ADD] = fetch_add_##n,          \
			[ACT_ADD_FETCH] = add_fetch_##n, [ACT_FETCH_SUB] = fetch_sub_##n,          \
			[ACT_FETCH_OR] = fetch_or_##n,   [ACT_FETCH_AND] = fetch_and_##n,          \
			[ACT_FETCH_XOR] = fetch_xor_##n, [ACT_FETCH_NAND] = fetch_nand_##n,        \
		};                                                                                 \
		_Alignas(n) unsigned char expected[n];                                             \
		type value, result = 0;                                                            \
                                                                                                   \
		memcpy(&value, act->value, n);                                                     \
		memcpy(expected, act->expected, n);                                                \
		if (act->kind == ACT_LOAD)                                                         \
			result = load_##n(object, SEQ_CST);                                        \
		else if (act->kind == ACT_STORE)                                                   \
			store_##n(object, value, SEQ_CST);                                         \
		else if (act->kind == ACT_CAS)                                                     \
			act->swapped =                                                             \
				compare_exchange_##n(object, expected, value, SEQ_CST, SEQ_CST);   \
		else                                                                               \
			result = fetches[act->kind](object, value, SEQ_CST);                       \
		memcpy(act->expected, expected, n);                                                \
		memcpy(act->result, &result, n);                                                   \
	}
SIZED(1, uint8_t)
SIZED(2, uint16_t)
SIZED(4, uint32_t)
SIZED(8, uint64_t)
SIZED(16, uint128)

static void run_sized(struct act *act, void *object)
{
	switch (act->size) {
	case 1:
		run_1(act, object);
		return;
	case 2:
		run_2(act, object);
		return;
	case 4:
		run_4(act, object);
		return;
	case 8:
		run_8(act, object);
		return;
	default:
		run_16(act, object);
	}
}

void act_run(struct act *act, void *arena)
{
	char *object = (char *)arena + act->at;

	if (act->sized)
		run_sized(act, object);
	else if (act->kind == ACT_LOAD)
		atomic_load_any(act->size, object, act->result, SEQ_CST);
	else if (act->kind == ACT_STORE)
		atomic_store_any(act->size, object, act->value, SEQ_CST);
	else if (act->kind == ACT_EXCHANGE)
		atomic_exchange_any(act->size, object, act->value, act->result, SEQ_CST);
	else
		act->swapped = atomic_cas_any(act->size, object, act->expected, act->value, SEQ_CST,
					      SEQ_CST);
}

/* What a sized one of the fetches leaves behind. */
static uint128 fetched(enum act_kind kind, uint128 old, uint128 value)
{
	switch (kind) {
	case ACT_FETCH_ADD:
	case ACT_ADD_FETCH:
		return old + value;
	case ACT_FETCH_SUB:
		return old - value;
	case ACT_FETCH_OR:
		return old | value;
	case ACT_FETCH_AND:
		return old & value;
	case ACT_FETCH_XOR:
		return old ^ value;
	default:
		return ~(old & value);
	}
}

static void model_fetch(struct act *act, unsigned char *object)
{
	uint128 old = 0, value = 0, sum;

	memcpy(&old, object, act->size);
	memcpy(&value, act->value, act->size);
	sum = fetched(act->kind, old, value);
	memcpy(act->result, act->kind == ACT_ADD_FETCH ? &sum : &old, act->size);
	memcpy(object, &sum, act->size);
}

void act_model(struct act *act, void *arena)
{
	unsigned char *object = (unsigned char *)arena + act->at;

	if (act->kind >= ACT_GENERIC_KINDS) {
		model_fetch(act, object);
	} else if (act->kind == ACT_CAS) {
		act->swapped = memcmp(object, act->expected, act->size) == 0;
		if (act->swapped)
			memcpy(object, act->value, act->size);
		else
			memcpy(act->expected, object, act->size);
	} else {
		if (act->kind != ACT_STORE)
			memcpy(act->result, object, act->size);
		if (act->kind != ACT_LOAD)
			memcpy(object, act->value, act->size);
	}
}

bool act_gave_same(const struct act *a, const struct act *b)
{
	if (a->kind == ACT_CAS)
		return a->swapped == b->swapped && memcmp(a->expected, b->expected, a->size) == 0;
	return a->kind == ACT_STORE || memcmp(a->result, b->result, a->size) == 0;
}

void act_print(FILE *out, const struct act *act)
{
	fprintf(out, "%s%s of %u bytes at %u", act_names[act->kind], act->sized ? "_N" : "",
		act->size, act->at);
	if (act->kind == ACT_CAS)
		fprintf(out, " (%s)", act->swapped ? "swapped" : "failed");
}
