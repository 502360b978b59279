/* SPDX-License-Identifier: MIT */
/* Makes the objects of a setup, and knows which operations go together there. */
#include "objects.h"

#include <stdlib.h>

const struct ops_kind *const ops_kinds[OPS_OBJECTS] = {
	[OPS_COUNTER] = &kind_counter,
	[OPS_REFCOUNT] = &kind_refcount,
	[OPS_SHARED] = &kind_shared,
	[OPS_EXAMPLE] = &kind_example,
	[OPS_RWLOCK] = &kind_rwlock,
	[OPS_MUTEX] = &kind_mutex,
	[OPS_HISTOGRAM] = &kind_histogram,
	[OPS_FIFO] = &kind_fifo,
	[OPS_STACK] = &kind_nodes,
	[OPS_QUEUE] = &kind_nodes,
	[OPS_BLOCKS] = &kind_nodes,
	[OPS_ARRAY] = &kind_nodes,
	[OPS_RCU] = &kind_rcu,
	[OPS_CALLBACKS] = &kind_rcu,
	[OPS_TRACE] = &kind_trace,
	[OPS_IDS] = &kind_ids,
};

bool ops_is_kind(unsigned i)
{
	return OBJ.made >> i & 1 && (i == 0 || ops_kinds[i] != ops_kinds[i - 1]);
}

static void destroy(void)
{
	for (unsigned i = 0; i < OPS_OBJECTS; i++)
		if (ops_is_kind(i) && ops_kinds[i]->destroy)
			ops_kinds[i]->destroy();
	OBJ.made = 0;
}

static void create(enum ops_object object)
{
	for (unsigned i = 0; i < OPS_OBJECTS; i++)
		if (object == OPS_OBJECTS || ops_kinds[i] == ops_kinds[object])
			OBJ.made |= 1u << i;
	for (unsigned i = 0; i < OPS_OBJECTS; i++)
		if (ops_is_kind(i) && ops_kinds[i]->create && !ops_kinds[i]->create())
			abort();
}

static void fill(struct actor *unused)
{
	for (unsigned i = 0; i < OPS_OBJECTS; i++)
		if (ops_is_kind(i) && ops_kinds[i]->fill)
			ops_kinds[i]->fill();
}

void ops_enter(void)
{
	for (unsigned i = 0; i < OPS_OBJECTS; i++) {
		const struct ops_kind *k = ops_kinds[i];
		void (*enter)(void) = OBJ.setup == OPS_FALLBACK ? k->enter_closed : k->enter;

		if (ops_is_kind(i) && enter)
			enter();
	}
}

void ops_reset(enum ops_setup setup, enum ops_object object)
{
	destroy();
	OBJ.setup = setup;
	create(object);
	near_slot(); /* the thread is live from here on, where it can be */
	if (setup == OPS_FALLBACK)
		not_live(fill, NULL);
	else
		fill(NULL);
	for (unsigned i = 0; i < OPS_OBJECTS; i++)
		if (ops_is_kind(i) && ops_kinds[i]->begin)
			ops_kinds[i]->begin();
	ops_enter();
}

/* In two setups the session has another clock, which few operations need. A time that is read
 * before the sequence may belong to a session that has ended by then. */
static bool trace_pair_is_valid(enum ops_setup setup, const struct op *a, const struct op *b)
{
	if (setup == OPS_FALLBACK)
		return !(a->flags & OPS_LONG) && b->flags & (OPS_SIGNAL_SAFE | OPS_FENCES);
	if (setup == OPS_EMPTY || setup == OPS_KILLED)
		return (a == b || b->flags & OPS_FENCES) && a->flags & OPS_SIGNAL_SAFE &&
		       !(a->flags & OPS_NOT_LIVE) && !(setup == OPS_KILLED && a->flags & OPS_LONG);
	return true;
}

bool ops_pair_is_valid(enum ops_setup setup, const struct op *a, const struct op *b)
{
	unsigned either = a->flags | b->flags, both = a->flags & b->flags;

	if (a->object == OPS_TRACE && b->object == OPS_TRACE && !trace_pair_is_valid(setup, a, b))
		return false;
	if (both & (OPS_KILLS | OPS_REVIVES))
		return false;
	return !(either & (setup == OPS_KILLED ? OPS_KILLS : OPS_REVIVES));
}

/* Callbacks wait for the sections of the same domain. */
static bool is_waited_for(const struct op *a, const struct op *b)
{
	return b->flags & OPS_WAITS &&
	       (a->object == b->object || (a->object == OPS_RCU && b->object == OPS_CALLBACKS));
}

bool ops_pair_does_not_wait(enum ops_setup setup, const struct op *a, const struct op *b)
{
	if ((a->flags | b->flags) & OPS_STOPPED_INSIDE)
		return false;
	return ops_pair_is_valid(setup, a, b) && !is_waited_for(a, b);
}

/* If the slot's list is empty, a pop takes other lists and puts them elsewhere. From which of two
 * rings a get takes depends on the gets of its thread before. An array is closed only
 * once it is in use. An event whose clock is read outside of its sequence has two. */
bool ops_is_one_step(enum ops_setup setup, const struct op *a)
{
	if (a->flags & OPS_COMPOSITE)
		return false;
	if (a->object == OPS_QUEUE || a->object == OPS_ARRAY || a->object == OPS_IDS)
		return setup != OPS_FALLBACK;
	if (a->object == OPS_TRACE)
		return setup == OPS_OPEN || setup == OPS_KILLED;
	return a->object != OPS_STACK || setup == OPS_OPEN || setup == OPS_KILLED;
}
