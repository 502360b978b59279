/* SPDX-License-Identifier: MIT */
/* The loops: one for each operation and kind of object, and each twice, with and without a clock
 * around the operation. Values that are written differ from one to the next. */
#include "cases.h"

struct place_of_values {
	void *in, *out;
};

#define STEP INLINE void
#define STEP_ARGS struct worker *me, struct place_of_values v, enum kind kind, size_t size

INLINE void next_value(struct worker *me, void *in, size_t size)
{
	me->last += me->step;
	number_set(in, size, me->last);
}

STEP step_load(STEP_ARGS)
{
	call_load(kind, size, me->object, v.out);
	me->wrong |= number_is_torn(v.out, size);
}

STEP step_store(STEP_ARGS)
{
	next_value(me, v.in, size);
	call_store(kind, size, me->object, v.in);
}

STEP step_exchange(STEP_ARGS)
{
	next_value(me, v.in, size);
	call_exchange(kind, size, me->object, v.in, v.out);
	me->put += me->last;
	me->taken += number_at(v.out, size);
	me->wrong |= number_is_torn(v.out, size);
}

/* The value that a failed attempt found is the one to try with. */
STEP step_cas(STEP_ARGS)
{
	call_load(kind, size, me->object, v.out);
	do {
		me->wrong |= number_is_torn(v.out, size);
		memcpy(v.in, v.out, size);
		number_set(v.in, size, number_at(v.out, size) + 1);
	} while (!call_cas(kind, size, me->object, v.out, v.in));
}

STEP step_add(STEP_ARGS)
{
	(void)v;
	(void)size;
	call_add(kind, me->object, 1);
}

/* The first of the threads stores now and then. */
STEP step_mostly(STEP_ARGS)
{
	if (!me->until_store || --me->until_store) {
		step_load(me, v, kind, size);
		return;
	}
	step_store(me, v, kind, size);
	me->until_store = STORES_EVERY;
}

/* What is counted stands in a copy: no thread writes where another one looks. */
INLINE void loop(struct window_thread *t, void (*step)(STEP_ARGS), enum kind kind, bool timed)
{
	const struct window *w = t->window;
	struct worker me = workers[t->index];
	char in[MAX_NEAR] __attribute__((aligned(64))) = {0};
	char out[MAX_NEAR] __attribute__((aligned(64))) = {0};
	struct place_of_values v = {kind == GENERIC ? me.in : in, kind == GENERIC ? me.out : out};
	size_t size = call_size(kind, chosen.size);

	for (; !window_is_over(w); me.done++) {
		uint64_t began = timed ? window_ns() : 0;

		step(&me, v, kind, size);
		if (timed)
			window_note(t, began);
	}
	workers[t->index] = me;
	t->done = me.done;
}

#define LOOPS(step, kind)                                                                          \
	static void work_##step##_##kind(struct window_thread *t)                                  \
	{                                                                                          \
		loop(t, step_##step, kind, false);                                                 \
	}                                                                                          \
	static void timed_##step##_##kind(struct window_thread *t)                                 \
	{                                                                                          \
		loop(t, step_##step, kind, true);                                                  \
	}
#define SIZED_KINDS(X, step) X(step, SIZED_1) X(step, SIZED_4) X(step, SIZED_8) X(step, SIZED_16)
#define GENERIC_KINDS(X, step)                                                                     \
	X(step, GENERIC_3)                                                                         \
	X(step, GENERIC_12)                                                                        \
	X(step, GENERIC_16) X(step, GENERIC_24) X(step, GENERIC_64) X(step, GENERIC)
#define ALL_KINDS(X, step) SIZED_KINDS(X, step) GENERIC_KINDS(X, step)

ALL_KINDS(LOOPS, load)
ALL_KINDS(LOOPS, store)
ALL_KINDS(LOOPS, exchange)
ALL_KINDS(LOOPS, cas)
SIZED_KINDS(LOOPS, add)
ALL_KINDS(LOOPS, mostly)

#define ENTRY(step, kind) [kind] = {work_##step##_##kind, timed_##step##_##kind},

static const struct loops all[OPS][KINDS] = {
	[OP_LOAD] = {ALL_KINDS(ENTRY, load)},         [OP_STORE] = {ALL_KINDS(ENTRY, store)},
	[OP_EXCHANGE] = {ALL_KINDS(ENTRY, exchange)}, [OP_CAS] = {ALL_KINDS(ENTRY, cas)},
	[OP_ADD] = {SIZED_KINDS(ENTRY, add)},         [OP_MOSTLY] = {ALL_KINDS(ENTRY, mostly)},
};

struct loops loops_of(enum op op, enum kind kind)
{
	return all[op][kind];
}
