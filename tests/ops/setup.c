/* SPDX-License-Identifier: MIT */
/* Makes the objects of a setup. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "percpu/internal.h"

static void destroy(void)
{
	if (!OBJ.made)
		return;
	near_counter_destroy(&OBJ.counter);
	near_stack_destroy(&OBJ.stack);
	near_refcount_destroy(&OBJ.refcount);
	near_percpu_free(OBJ.peak);
	near_rwlock_destroy(&OBJ.rwlock);
}

static void released(struct near_refcount *r)
{
	OBJ.released++;
}

/* To make a file and map it takes longer than all else here: what a region holds when it is new is
 * copied from one that nobody touches. */
static bool fresh_shared(void)
{
	struct near_shared *s = &OBJ.shared, *untouched = &OBJ.untouched;
	size_t slots = 2 * near_cpus() + 1;

	if (!OBJ.made && (near_shared_create(s, 64) || near_shared_create(untouched, 64)))
		return false;
	memcpy(s->header, untouched->header,
	       (size_t)(s->copies - (char *)s->header) + slots * s->stride);
	return true;
}

static void create(void)
{
	void *peak;

	if (near_percpu_alloc(&peak, sizeof(*OBJ.peak), sizeof(*OBJ.peak)) ||
	    near_counter_init(&OBJ.counter) || near_stack_init(&OBJ.stack) ||
	    near_refcount_init(&OBJ.refcount, released) || near_rwlock_init(&OBJ.rwlock) ||
	    !fresh_shared())
		abort();
	OBJ.guarded[0] = OBJ.guarded[1] = OPS_FIRST_COUNT;
	OBJ.torn = false;
	OBJ.peak = peak;
	OBJ.bias = OBJ.refcount.exact - 1;
	OBJ.made = true;
	OBJ.released = 0;
	for (unsigned i = 0; i < 3; i++)
		ops_mutex[i] = (struct near_mutex)NEAR_MUTEX_INIT;
	OBJ.sections = 0;
}

static void fill(struct actor *unused)
{
	struct actor nobody = {0};

	call_add(OPS_FIRST_COUNT);
	call_add_shared(OPS_FIRST_COUNT);
	call_raise_to(&nobody, OPS_FIRST_COUNT);
	for (unsigned i = 1; i < OPS_FIRST_REFS; i++)
		call_get();
	for (unsigned i = 0; i < OPS_FIRST_NODES && OBJ.setup != OPS_EMPTY; i++)
		call_push(&OBJ.nodes[i]);
}

void ops_enter(void)
{
	struct near_stack_node node;
	struct actor nobody = {0};

	if (OBJ.setup == OPS_FALLBACK)
		return;
	call_add(0);
	call_add_shared(0);
	call_raise_to(&nobody, 1);
	if (!call_try_read_lock())
		abort();
	call_read_unlock();
	if (OBJ.setup != OPS_KILLED) {
		call_get();
		call_put();
	}
	call_push(&node);
	if (call_pop() != &node)
		abort();
}

void ops_reset_to(enum ops_setup setup)
{
	destroy();
	create();
	OBJ.setup = setup;
	near_slot(); /* the thread is live from here on, where it can be */
	if (setup == OPS_FALLBACK)
		not_live(fill, NULL);
	else
		fill(NULL);
	if (setup == OPS_KILLED)
		near_refcount_kill(&OBJ.refcount);
	ops_enter();
}

void ops_reset(void)
{
	ops_reset_to(OPS_OPEN);
}

bool ops_pair_is_valid(enum ops_setup setup, const struct op *a, const struct op *b)
{
	unsigned either = a->flags | b->flags, both = a->flags & b->flags;

	if (both & (OPS_KILLS | OPS_REVIVES))
		return false;
	return !(either & (setup == OPS_KILLED ? OPS_KILLS : OPS_REVIVES));
}

bool ops_pair_does_not_wait(enum ops_setup setup, const struct op *a, const struct op *b)
{
	return ops_pair_is_valid(setup, a, b) && !(a->object == b->object && b->flags & OPS_WAITS);
}

/* If the slot's list is empty, a pop takes other lists and puts them elsewhere. */
bool ops_is_one_step(enum ops_setup setup, const struct op *a)
{
	if (a->flags & OPS_COMPOSITE)
		return false;
	return a->object != OPS_STACK || setup == OPS_OPEN || setup == OPS_KILLED;
}
