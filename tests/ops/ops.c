/* SPDX-License-Identifier: MIT */
/* The table of operations. No stdio: the emulator runs all of this thousands of times. */
#include "ops.h"

#include <nearcpu/counter.h>
#include <nearcpu/mutex.h>
#include <nearcpu/refcount.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/shared.h>
#include <nearcpu/stack.h>
#include <stdlib.h>
#include <string.h>

#include "percpu/internal.h"
#include "../../examples/sequence.h" /* the sequence that near_seq(7) explains */
#include "objects.h"

struct ops_objects ops_objects;
struct near_mutex ops_mutex;
#define OBJ ops_objects

void ops_actor(struct actor *a, unsigned id)
{
	*a = (struct actor){.id = id};
}

static void result(struct actor *me, const void *value)
{
	if (me->n == OPS_RESULTS)
		abort();
	me->results[me->n++] = (void *)(uintptr_t)value;
}

static void number(struct actor *me, int64_t value)
{
	result(me, (void *)(intptr_t)value);
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

/* Each inline function of the library once, out of line: so each sequence is in the program once,
 * and every operation that reaches it counts. */
#define ONCE static __attribute__((noinline))

ONCE void add(int64_t n)
{
	near_counter_add(&OBJ.counter, n);
}

ONCE void add_shared(int64_t n)
{
	near_shared_add(&OBJ.shared, OPS_SHARED_OFFSET, n);
}

ONCE void push(struct near_stack_node *node)
{
	near_stack_push(&OBJ.stack, node);
}

ONCE void push_chain(struct near_stack_node *first, struct near_stack_node *last)
{
	near_stack_push_chain(&OBJ.stack, first, last);
}

ONCE struct near_stack_node *pop(void)
{
	return near_stack_pop(&OBJ.stack);
}

ONCE void get(void)
{
	near_refcount_get(&OBJ.refcount);
}

ONCE void put(void)
{
	near_refcount_put(&OBJ.refcount);
}

ONCE bool try_get(void)
{
	return near_refcount_try_get(&OBJ.refcount);
}

ONCE bool try_get_live(void)
{
	return near_refcount_try_get_live(&OBJ.refcount);
}

ONCE void unlock(void)
{
	near_mutex_unlock(&ops_mutex);
}

static void counter_add(struct actor *me)
{
	me->counted += 3;
	add(3);
}

static void counter_add_neg(struct actor *me)
{
	me->counted -= 5;
	add(-5);
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
	push(own_node(me));
}

static void stack_push_chain(struct actor *me)
{
	struct near_stack_node *first = own_node(me), *last = own_node(me);

	first->next = last;
	push_chain(first, last);
}

static void stack_pop(struct actor *me)
{
	node_result(me, pop());
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
	struct near_stack_node *first = pop(), *second = pop();

	if (second)
		second->next = NULL;
	if (first)
		push(first);
	if (second)
		push(second);
}

static void refcount_get(struct actor *me)
{
	me->refs++;
	get();
}

static void refcount_put(struct actor *me)
{
	me->refs--;
	put();
}

static void refcount_put_own(struct actor *me)
{
	for (int i = 0; i < OPS_OWN_REFS; i++)
		refcount_put(me);
}

static void refcount_try_get(struct actor *me)
{
	bool got = try_get();

	me->refs += got;
	number(me, got);
}

static void refcount_try_get_live(struct actor *me)
{
	bool got = try_get_live();

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
	add_shared(7);
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

ONCE void raise_to(struct actor *me, uint64_t n)
{
	me->peak = n > me->peak ? n : me->peak;
	peak_raise(OBJ.peak, n);
}

static void example_raise(struct actor *me)
{
	raise_to(me, OPS_FIRST_COUNT + 10 + me->id);
}

static void example_raise_low(struct actor *me)
{
	raise_to(me, OPS_FIRST_COUNT - 50);
}

/* Nobody waits, so that each operation comes to its end while another one is stopped. */
ONCE bool try_read_lock(void)
{
	return near_rwlock_try_read_lock(&OBJ.rwlock);
}

ONCE void read_unlock(void)
{
	near_rwlock_read_unlock(&OBJ.rwlock);
}

static void read_inside(struct actor *me)
{
	int64_t first = OBJ.guarded[0];

	OBJ.torn |= first != OBJ.guarded[1];
	number(me, first);
}

static void rwlock_read(struct actor *me)
{
	bool got = try_read_lock();

	if (!got)
		return;
	read_inside(me);
	read_unlock();
}

static void rwlock_read_nested(struct actor *me)
{
	if (!try_read_lock())
		return;
	read_inside(me);
	rwlock_read(me);
	read_inside(me);
	read_unlock();
}

static void rwlock_read_slow(struct actor *me)
{
	if (!near__rwlock_try_read_lock_slow(&OBJ.rwlock))
		return;
	read_inside(me);
	near__rwlock_read_unlock_slow(&OBJ.rwlock);
}

static bool write_inside(struct actor *me)
{
	bool got = near_rwlock_try_write_lock(&OBJ.rwlock);

	if (!got)
		return false;
	OBJ.torn |= OBJ.guarded[0] != OBJ.guarded[1];
	OBJ.guarded[0]++;
	me->written++;
	OBJ.guarded[1]++;
	return true;
}

static void rwlock_write(struct actor *me)
{
	if (write_inside(me))
		near_rwlock_write_unlock(&OBJ.rwlock);
}

static void rwlock_downgrade(struct actor *me)
{
	if (!write_inside(me))
		return;
	near_rwlock_downgrade(&OBJ.rwlock);
	read_inside(me);
	read_unlock();
}

/* The slots are closed, and open again. */
static void rwlock_write_read(struct actor *me)
{
	rwlock_write(me);
	OBJ.rwlock.calm = 1;
	rwlock_read(me);
}

static void mutex_use(struct actor *me)
{
	near_mutex_lock(&ops_mutex);
	me->sections++;
	OBJ.sections++;
	unlock();
}

static void mutex_try(struct actor *me)
{
	if (!near_mutex_try_lock(&ops_mutex))
		return;
	me->sections++;
	OBJ.sections++;
	unlock();
}

/* Runs an operation as a thread that is not live, by the words that vfork's assembly sets. */
static void not_live(void (*run)(struct actor *me), struct actor *me)
{
	struct near__thread saved = near__self;

	near__self.area = &near__dead;
	*(volatile uint32_t *)&near__self.state = NEAR__VFORKED;
	run(me);
	near__self.area = saved.area;
	*(volatile uint32_t *)&near__self.state = saved.state;
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
	ops_mutex = (struct near_mutex)NEAR_MUTEX_INIT;
	OBJ.sections = 0;
}

static void fill(struct actor *unused)
{
	struct actor nobody = {0};

	add(OPS_FIRST_COUNT);
	add_shared(OPS_FIRST_COUNT);
	raise_to(&nobody, OPS_FIRST_COUNT);
	for (unsigned i = 1; i < OPS_FIRST_REFS; i++)
		get();
	for (unsigned i = 0; i < OPS_FIRST_NODES && OBJ.setup != OPS_EMPTY; i++)
		push(&OBJ.nodes[i]);
}

void ops_enter(void)
{
	struct near_stack_node node;
	struct actor nobody = {0};

	if (OBJ.setup == OPS_FALLBACK)
		return;
	add(0);
	add_shared(0);
	raise_to(&nobody, 1);
	if (!try_read_lock())
		abort();
	read_unlock();
	if (OBJ.setup != OPS_KILLED) {
		get();
		put();
	}
	push(&node);
	if (pop() != &node)
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
