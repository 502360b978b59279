/* SPDX-License-Identifier: MIT */
/* The table of operations. No stdio: the emulator runs all of this thousands of times. */
#include "calls.h"

#include <stdlib.h>

struct ops_objects ops_objects;
struct near_mutex ops_mutex;

void ops_actor(struct actor *a, unsigned id)
{
	*a = (struct actor){.id = id};
}

static struct near_stack_node *own_node(struct actor *me)
{
	if (me->pushed == OPS_OWN_NODES)
		abort();
	return &OBJ.nodes[OPS_FIRST_NODES + me->id * OPS_OWN_NODES + me->pushed++];
}

/* A list that was taken: each node, then NULL. Bounded, should it have become a ring. */
static void list_result(struct actor *me, const struct near_stack_node *list)
{
	for (; list && me->n < OPS_RESULTS - 1; list = list->next, me->got++)
		result(me, list);
	result(me, NULL);
}

static void node_result(struct actor *me, const struct near_stack_node *node)
{
	result(me, node);
	me->got += node != NULL;
}

static void counter_add(struct actor *me)
{
	me->counted += 3;
	call_add(3);
}

static void counter_add_neg(struct actor *me)
{
	me->counted -= 5;
	call_add(-5);
}

static void counter_read(struct actor *me)
{
	number(me, near_counter_read(&OBJ.counter));
}

static void counter_reset(struct actor *me)
{
	int64_t taken = near_counter_reset(&OBJ.counter);

	me->counted -= taken;
	number(me, taken);
}

static void stack_push(struct actor *me)
{
	call_push(own_node(me));
}

static void stack_push_chain(struct actor *me)
{
	struct near_stack_node *first = own_node(me), *last = own_node(me);

	first->next = last;
	call_push_chain(first, last);
}

static void stack_pop(struct actor *me)
{
	node_result(me, call_pop());
}

static void stack_pop_all(struct actor *me)
{
	list_result(me, near_stack_pop_all(&OBJ.stack));
}

static void stack_steal(struct actor *me)
{
	node_result(me, near_stack_steal(&OBJ.stack));
}

static void stack_drain(struct actor *me)
{
	list_result(me, near_stack_drain(&OBJ.stack));
}

/* A node that was popped is the popper's again, and goes back changed: what a free list is for. The
 * list then begins as before, which a pop in between must not take for unchanged. */
static void stack_pop_push(struct actor *me)
{
	struct near_stack_node *first = call_pop(), *second = call_pop();

	if (second)
		second->next = NULL;
	if (first)
		call_push(first);
	if (second)
		call_push(second);
}

static void refcount_get(struct actor *me)
{
	me->refs++;
	call_get();
}

static void refcount_put(struct actor *me)
{
	me->refs--;
	call_put();
}

static void refcount_put_own(struct actor *me)
{
	for (int i = 0; i < OPS_OWN_REFS; i++)
		refcount_put(me);
}

static void refcount_try_get(struct actor *me)
{
	bool got = call_try_get();

	me->refs += got;
	number(me, got);
}

static void refcount_try_get_live(struct actor *me)
{
	bool got = call_try_get_live();

	me->refs += got;
	number(me, got);
}

static void refcount_kill(struct actor *me)
{
	me->refs--;
	near_refcount_kill(&OBJ.refcount);
}

static void refcount_revive(struct actor *me)
{
	me->refs++;
	near_refcount_revive(&OBJ.refcount);
}

/* Concurrently with a refcount_put_own the count reaches zero. */
static void refcount_kill_put_own(struct actor *me)
{
	refcount_kill(me);
	refcount_put_own(me);
}

static void refcount_kill_revive(struct actor *me)
{
	refcount_kill(me);
	refcount_revive(me);
}

/* The slow paths without a failure before them: each comes with a sequence of its own. */

static void counter_add_slow(struct actor *me)
{
	me->counted += 11;
	near__counter_add_slow(OBJ.counter.p, 11);
}

static void stack_push_slow(struct actor *me)
{
	struct near_stack_node *node = own_node(me);

	near__stack_push_slow(&OBJ.stack, node, node);
}

static void stack_pop_slow(struct actor *me)
{
	node_result(me, near__stack_pop_slow(&OBJ.stack));
}

static void refcount_get_slow(struct actor *me)
{
	me->refs++;
	near__refcount_get_slow(&OBJ.refcount);
}

static void refcount_put_slow(struct actor *me)
{
	me->refs--;
	near__refcount_put_slow(&OBJ.refcount);
}

static void shared_add_slow(struct actor *me)
{
	me->shared += 13;
	near__shared_add_slow(&OBJ.shared, OPS_SHARED_OFFSET, 13);
}

static void shared_add(struct actor *me)
{
	me->shared += 7;
	call_add_shared(7);
}

static void shared_read(struct actor *me)
{
	number(me, near_shared_read(&OBJ.shared, OPS_SHARED_OFFSET));
}

static void shared_reset(struct actor *me)
{
	int64_t taken = near_shared_reset(&OBJ.shared, OPS_SHARED_OFFSET);

	me->shared -= taken;
	number(me, taken);
}

static void example_raise(struct actor *me)
{
	call_raise_to(me, OPS_FIRST_COUNT + 10 + me->id);
}

static void example_raise_low(struct actor *me)
{
	call_raise_to(me, OPS_FIRST_COUNT - 50);
}

#define NOT_LIVE(name)                                                                             \
	static void name##_fallback(struct actor *me)                                              \
	{                                                                                          \
		not_live(name, me);                                                                \
	}

NOT_LIVE(counter_add)
NOT_LIVE(stack_push)
NOT_LIVE(stack_pop)
NOT_LIVE(stack_pop_all)
NOT_LIVE(stack_steal)
NOT_LIVE(refcount_get)
NOT_LIVE(refcount_put)
NOT_LIVE(shared_add)
NOT_LIVE(example_raise)
NOT_LIVE(rwlock_read)
NOT_LIVE(rwlock_write_read)
NOT_LIVE(mutex_use)

/* clang-format off */
#define OP(name, object, flags) {#name, name, object, flags}
/* clang-format on */

const struct op ops[] = {
	OP(counter_add, OPS_COUNTER, OPS_SIGNAL_SAFE),
	OP(counter_add_neg, OPS_COUNTER, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(counter_add_slow, OPS_COUNTER, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(counter_add_fallback, OPS_COUNTER, OPS_SIGNAL_SAFE | OPS_NOT_LIVE),
	OP(counter_read, OPS_COUNTER, OPS_SIGNAL_SAFE),
	OP(counter_reset, OPS_COUNTER, 0),
	OP(stack_push, OPS_STACK, OPS_SIGNAL_SAFE),
	OP(stack_push_chain, OPS_STACK, OPS_SIGNAL_SAFE),
	OP(stack_push_slow, OPS_STACK, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(stack_push_fallback, OPS_STACK, OPS_SIGNAL_SAFE | OPS_NOT_LIVE),
	OP(stack_pop, OPS_STACK, 0),
	OP(stack_pop_slow, OPS_STACK, OPS_TWIN),
	OP(stack_pop_fallback, OPS_STACK, OPS_NOT_LIVE),
	OP(stack_pop_push, OPS_STACK, OPS_COMPOSITE),
	OP(stack_pop_all, OPS_STACK, 0),
	OP(stack_pop_all_fallback, OPS_STACK, OPS_NOT_LIVE),
	OP(stack_steal, OPS_STACK, OPS_COMPOSITE | OPS_FENCES),
	OP(stack_steal_fallback, OPS_STACK, OPS_COMPOSITE | OPS_FENCES | OPS_NOT_LIVE),
	OP(stack_drain, OPS_STACK, OPS_FENCES),
	OP(refcount_get, OPS_REFCOUNT, OPS_SIGNAL_SAFE),
	OP(refcount_get_slow, OPS_REFCOUNT, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(refcount_get_fallback, OPS_REFCOUNT, OPS_SIGNAL_SAFE | OPS_NOT_LIVE),
	OP(refcount_put, OPS_REFCOUNT, OPS_SIGNAL_SAFE),
	OP(refcount_put_slow, OPS_REFCOUNT, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(refcount_put_fallback, OPS_REFCOUNT, OPS_SIGNAL_SAFE | OPS_NOT_LIVE),
	OP(refcount_put_own, OPS_REFCOUNT, OPS_SIGNAL_SAFE | OPS_COMPOSITE),
	OP(refcount_try_get, OPS_REFCOUNT, OPS_SIGNAL_SAFE),
	OP(refcount_try_get_live, OPS_REFCOUNT, OPS_SIGNAL_SAFE),
	OP(refcount_kill, OPS_REFCOUNT, OPS_FENCES | OPS_KILLS),
	OP(refcount_revive, OPS_REFCOUNT, OPS_FENCES | OPS_REVIVES),
	OP(refcount_kill_put_own, OPS_REFCOUNT, OPS_FENCES | OPS_KILLS | OPS_COMPOSITE),
	OP(refcount_kill_revive, OPS_REFCOUNT, OPS_FENCES | OPS_KILLS | OPS_COMPOSITE),
	OP(shared_add, OPS_SHARED, OPS_SIGNAL_SAFE),
	OP(shared_add_slow, OPS_SHARED, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(shared_add_fallback, OPS_SHARED, OPS_SIGNAL_SAFE | OPS_NOT_LIVE),
	OP(shared_read, OPS_SHARED, OPS_SIGNAL_SAFE),
	OP(shared_reset, OPS_SHARED, 0),
	OP(example_raise, OPS_EXAMPLE, OPS_SIGNAL_SAFE),
	OP(example_raise_low, OPS_EXAMPLE, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(example_raise_fallback, OPS_EXAMPLE, OPS_SIGNAL_SAFE | OPS_NOT_LIVE),
	OP(rwlock_read, OPS_RWLOCK, OPS_COMPOSITE),
	OP(rwlock_read_nested, OPS_RWLOCK, OPS_COMPOSITE),
	OP(rwlock_read_slow, OPS_RWLOCK, OPS_COMPOSITE),
	OP(rwlock_read_fallback, OPS_RWLOCK, OPS_COMPOSITE | OPS_NOT_LIVE),
	OP(rwlock_write, OPS_RWLOCK, OPS_COMPOSITE | OPS_FENCES),
	OP(rwlock_downgrade, OPS_RWLOCK, OPS_COMPOSITE | OPS_FENCES | OPS_TWIN),
	OP(rwlock_write_read, OPS_RWLOCK, OPS_COMPOSITE | OPS_FENCES),
	OP(rwlock_write_read_fallback, OPS_RWLOCK, OPS_COMPOSITE | OPS_FENCES | OPS_NOT_LIVE),
	OP(mutex_use, OPS_MUTEX, OPS_COMPOSITE | OPS_FENCES | OPS_WAITS),
	OP(mutex_use_fallback, OPS_MUTEX,
	   OPS_COMPOSITE | OPS_FENCES | OPS_WAITS | OPS_NOT_LIVE | OPS_TWIN),
	OP(mutex_try, OPS_MUTEX, OPS_COMPOSITE | OPS_TWIN),
};
const unsigned ops_count = sizeof(ops) / sizeof(*ops);
