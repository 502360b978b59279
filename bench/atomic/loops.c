/* SPDX-License-Identifier: MIT */
/* The loops: one for each operation and kind of object, and each twice, with and without a clock
 * around the operation. Values that are written differ from one to the next. */
#include "atomic/cases.h"

#define VALUES 16 /* of a thread, stored in turn: each was written long before it is read again */

struct room {
	char *out, *in;
	char (*values)[MAX_NEAR];
};

#define STEP INLINE void
#define STEP_ARGS struct worker *me, const struct room *room, enum kind kind, size_t size

/* The time to write the number into a large value does not matter. */
INLINE const void *next_value(struct worker *me, const struct room *room, enum kind kind,
			      size_t size)
{
	uint32_t turn = ++me->turn;

	if (kind != GENERIC)
		turn %= VALUES;
	me->last = me->first + turn * me->step;
	if (kind != GENERIC)
		return room->values[turn];
	number_set(room->in, size, me->last);
	return room->in;
}

STEP step_load(STEP_ARGS)
{
	call_load(kind, size, me->object, room->out);
	me->wrong |= number_is_torn(room->out, size);
}

STEP step_store(STEP_ARGS) { call_store(kind, size, me->object, next_value(me, room, kind, size)); }

STEP step_exchange(STEP_ARGS)
{
	call_exchange(kind, size, me->object, next_value(me, room, kind, size), room->out);
	me->put += me->last;
	me->taken += number_at(room->out, size);
	me->wrong |= number_is_torn(room->out, size);
}

/* A failed compare-exchange leaves the value for the next one. */
STEP step_cas(STEP_ARGS)
{
	call_load(kind, size, me->object, room->out);
	do {
		me->wrong |= number_is_torn(room->out, size);
		memcpy(room->in, room->out, size);
		number_set(room->in, size, number_at(room->out, size) + 1);
	} while (!call_cas(kind, size, me->object, room->out, room->in));
}

STEP step_add(STEP_ARGS)
{
	(void)room;
	(void)size;
	call_add(kind, me->object, 1);
}

/* The first of the threads stores once in STORES_EVERY operations. */
STEP step_mostly(STEP_ARGS)
{
	if (!me->until_store || --me->until_store) {
		step_load(me, room, kind, size);
		return;
	}
	step_store(me, room, kind, size);
	me->until_store = STORES_EVERY;
}

/* Counts in a copy, so that no thread writes to a line that another one reads. */
INLINE void loop(struct window_thread *t, void (*step)(STEP_ARGS), enum kind kind, bool timed)
{
	const struct window *w = t->window;
	struct worker me = workers[t->index];
	char near[VALUES + 2][MAX_NEAR] __attribute__((aligned(MAX_NEAR))) = {{0}};
	struct room room = {near[VALUES], near[VALUES + 1], near};
	size_t size = call_size(kind, selected.size);

	for (uint32_t i = 0; kind != GENERIC && i < VALUES; i++)
		number_set(near[i], size, me.first + i * me.step);
	if (kind == GENERIC)
		room = (struct room){me.out, me.in, NULL};
	for (; !window_is_over(w); me.done++) {
		uint64_t began = timed ? window_ns() : 0;

		step(&me, &room, kind, size);
		if (timed)
			window_note(began);
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
	X(step, GENERIC_16) X(step, GENERIC_24) X(step, GENERIC_64)
#define NEAR_KINDS(X, step) SIZED_KINDS(X, step) GENERIC_KINDS(X, step)
#define ALL_KINDS(X, step) NEAR_KINDS(X, step) X(step, GENERIC)

ALL_KINDS(LOOPS, load)
ALL_KINDS(LOOPS, store)
ALL_KINDS(LOOPS, exchange)
NEAR_KINDS(LOOPS, cas)
SIZED_KINDS(LOOPS, add)
ALL_KINDS(LOOPS, mostly)

#define ENTRY(step, kind) [kind] = {work_##step##_##kind, timed_##step##_##kind},

static const struct loops all[OPS][KINDS] = {
	[OP_LOAD] = {ALL_KINDS(ENTRY, load)},         [OP_STORE] = {ALL_KINDS(ENTRY, store)},
	[OP_EXCHANGE] = {ALL_KINDS(ENTRY, exchange)}, [OP_CAS] = {NEAR_KINDS(ENTRY, cas)},
	[OP_ADD] = {SIZED_KINDS(ENTRY, add)},         [OP_MOSTLY] = {ALL_KINDS(ENTRY, mostly)},
};

struct loops loops_of(enum op op, enum kind kind) { return all[op][kind]; }
