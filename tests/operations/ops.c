/* SPDX-License-Identifier: MIT */
/* The table of operations. No stdio: the emulator runs all of this thousands of times. */
#include "objects.h"

#include <stdlib.h>

struct ops_objects ops_objects;
struct near_mutex ops_mutex[3];
struct near_fifo ops_fifo;
struct ops_cells ops_cells[OPS_CELLS];

void ops_actor(struct actor *a, unsigned id)
{
	*a = (struct actor){.id = id};
}

struct near_stack_node *own_node(struct actor *me)
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

void node_result(struct actor *me, const struct near_stack_node *node)
{
	result(me, node);
	me->got += node != NULL;
}

#define OPERATION(name, ...)                                                                       \
	static void name(struct actor *me)                                                         \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

#define SHARED_COUNTER OBJ.shared.bases[OPS_SHARED_INDEX]

/* Records the change of a total in the actor, and makes it. */
#define ADDS(name, total, n, call) OPERATION(name, me->total += (n); call)

ADDS(counter_add, counted, 3, call_add(3))
ADDS(counter_add_neg, counted, -5, call_add(-5))
ADDS(shared_add, shared, 7, call_add_shared(7))
ADDS(refcount_get, refs, 1, call_get())
ADDS(refcount_put, refs, -1, call_put())
ADDS(refcount_kill, refs, -1, near_refcount_kill(&OBJ.refcount))
ADDS(refcount_revive, refs, 1, near_refcount_revive(&OBJ.refcount))
/* The slow paths without a failure before them: each comes with a sequence of its own. */
ADDS(counter_add_slow, counted, 11, near__counter_add_slow(OBJ.counter.p, 11))
ADDS(shared_add_slow, shared, 13, near__region_add_slow(&OBJ.shared.region, &SHARED_COUNTER, 13))
ADDS(refcount_get_slow, refs, 1, near__refcount_get_slow(&OBJ.refcount))
ADDS(refcount_put_slow, refs, -1, near__refcount_put_slow(&OBJ.refcount))

/* Takes away what it returns. */
#define RESETS(name, total, call)                                                                  \
	OPERATION(name, int64_t taken = call; me->total -= taken; number(me, taken))

RESETS(counter_reset, counted, near_counter_reset(&OBJ.counter))
RESETS(shared_reset, shared, near_shared_counters_reset(&OBJ.shared, OPS_SHARED_INDEX))
OPERATION(counter_read, number(me, near_counter_read(&OBJ.counter)))
OPERATION(shared_read, number(me, near_shared_counters_read(&OBJ.shared, OPS_SHARED_INDEX)))

#define RECORDS(name, histogram, value, n, sums)                                                   \
	OPERATION(name, me->recorded += (n); me->summed += (sums) * (value) * (n);                 \
		  call_record(&OBJ.histogram, value, n))

RECORDS(histogram_record, histogram, OPS_VALUE, 3, 0)
RECORDS(histogram_record_great, histogram, OPS_GREAT_VALUE, 5, 0)
RECORDS(histogram_record_sum, summed, OPS_VALUE, 7, 1)
RECORDS(regional_record, regional, OPS_VALUE, 9, 0)
RECORDS(regional_record_sum, regional_summed, OPS_VALUE, 11, 1)

static void reset_histogram(struct actor *me, struct near_histogram *h)
{
	struct near_histogram_snapshot s;

	if (near_histogram_reset(h, &s))
		abort();
	me->recorded -= (int64_t)s.count;
	me->summed -= (int64_t)s.exact_sum;
	number(me, (int64_t)s.count);
	near_histogram_snapshot_free(&s);
}

OPERATION(histogram_reset, reset_histogram(me, &OBJ.summed))
OPERATION(regional_reset, reset_histogram(me, &OBJ.regional))

#define TRIES(name, call) OPERATION(name, bool got = call; me->refs += got; number(me, got))

TRIES(refcount_try_get, call_try_get())
TRIES(refcount_try_get_live, call_try_get_live())

OPERATION(stack_push, call_push(own_node(me)))
OPERATION(stack_pop, node_result(me, call_pop()))
OPERATION(stack_pop_slow, node_result(me, near__stack_pop_slow(&OBJ.stack)))
OPERATION(stack_pop_all, list_result(me, near_stack_pop_all(&OBJ.stack)))
OPERATION(stack_steal, node_result(me, near_stack_steal(&OBJ.stack)))
OPERATION(stack_drain, list_result(me, near_stack_drain(&OBJ.stack)))

static void stack_push_chain(struct actor *me)
{
	struct near_stack_node *first = own_node(me), *last = own_node(me);

	first->next = last;
	call_push_chain(first, last);
}

static void stack_push_slow(struct actor *me)
{
	struct near_stack_node *node = own_node(me);

	near__stack_push_slow(&OBJ.stack, node, node);
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

/* An element that the queue refuses is still the actor's. */
static void queue_put(struct actor *me)
{
	int r = call_queue_put(own_node(me));

	me->pushed -= r != 0;
	number(me, r);
}

static void queue_put_slow(struct actor *me)
{
	int r = near__queue_try_put_slow(&OBJ.queue, own_node(me));

	me->pushed -= r != 0;
	number(me, r);
}

static void queue_get(struct actor *me)
{
	void *element;
	int r = near_queue_try_get(&OBJ.queue, &element);

	if (r)
		number(me, r);
	else
		node_result(me, element);
}

static void queue_get_many(struct actor *me)
{
	void *elements[OPS_NODES];
	long n = near_queue_try_get_many(&OBJ.queue, elements, OPS_NODES);

	for (long i = 0; i < n; i++)
		node_result(me, elements[i]);
	if (n < 0)
		number(me, n);
}

/* What it gets is its own element or the other actor's. */
static void fifo_use(struct actor *me)
{
	void *element = NULL;

	if (near_fifo_try_put(&ops_fifo, me) || near_fifo_try_get(&ops_fifo, &element) || !element)
		abort();
}

OPERATION(queue_put_get, queue_put(me); queue_get(me))
OPERATION(queue_count, number(me, (int64_t)near_queue_count(&OBJ.queue)))
/* Of two elements there is room for one. */
OPERATION(queue_put_twice, queue_put(me); queue_put(me))
OPERATION(queue_close, near_queue_close(&OBJ.queue))
OPERATION(queue_close_put, queue_close(me); queue_put(me))

static void refcount_put_own(struct actor *me)
{
	for (int i = 0; i < OPS_OWN_REFS; i++)
		refcount_put(me);
}

/* Concurrently with a refcount_put_own the count reaches zero. */
OPERATION(refcount_kill_put_own, refcount_kill(me); refcount_put_own(me))
OPERATION(refcount_kill_revive, refcount_kill(me); refcount_revive(me))
OPERATION(example_raise, call_raise_to(me, OPS_FIRST_COUNT + 10 + me->id))
OPERATION(example_raise_low, call_raise_to(me, OPS_FIRST_COUNT - 50))

#define NOT_LIVE(name) OPERATION(name##_fallback, not_live(name, me))

NOT_LIVE(counter_add)
NOT_LIVE(stack_push)
NOT_LIVE(stack_pop)
NOT_LIVE(stack_pop_all)
NOT_LIVE(stack_steal)
NOT_LIVE(refcount_get)
NOT_LIVE(refcount_put)
NOT_LIVE(shared_add)
NOT_LIVE(histogram_record)
NOT_LIVE(regional_record)
NOT_LIVE(example_raise)
NOT_LIVE(rwlock_read)
NOT_LIVE(rwlock_write_read)
NOT_LIVE(mutex_use)
NOT_LIVE(queue_put)
NOT_LIVE(queue_get)
NOT_LIVE(queue_close)
NOT_LIVE(rcu_read)
NOT_LIVE(rcu_call)
NOT_LIVE(trace_event)
NOT_LIVE(ids_acquire)
NOT_LIVE(ids_release)

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
	OP(mutex_alone, OPS_MUTEX, OPS_COMPOSITE),
	OP(histogram_record, OPS_HISTOGRAM, OPS_SIGNAL_SAFE),
	OP(histogram_record_great, OPS_HISTOGRAM, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(histogram_record_sum, OPS_HISTOGRAM, OPS_SIGNAL_SAFE | OPS_COMPOSITE),
	OP(histogram_record_fallback, OPS_HISTOGRAM, OPS_SIGNAL_SAFE | OPS_NOT_LIVE | OPS_TWIN),
	OP(histogram_reset, OPS_HISTOGRAM, OPS_COMPOSITE),
	OP(regional_record, OPS_HISTOGRAM, OPS_SIGNAL_SAFE),
	OP(regional_record_sum, OPS_HISTOGRAM, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_TWIN),
	OP(regional_record_fallback, OPS_HISTOGRAM, OPS_SIGNAL_SAFE | OPS_NOT_LIVE | OPS_TWIN),
	OP(regional_reset, OPS_HISTOGRAM, OPS_COMPOSITE),
	OP(fifo_use, OPS_FIFO, OPS_COMPOSITE | OPS_FENCES | OPS_WAITS),
	OP(queue_put, OPS_QUEUE, OPS_WAITS),
	OP(queue_put_slow, OPS_QUEUE, OPS_WAITS | OPS_TWIN),
	OP(queue_put_fallback, OPS_QUEUE, OPS_WAITS | OPS_NOT_LIVE),
	OP(queue_get, OPS_QUEUE, 0),
	OP(queue_get_fallback, OPS_QUEUE, OPS_NOT_LIVE | OPS_TWIN),
	OP(queue_get_many, OPS_QUEUE, 0),
	OP(queue_put_get, OPS_QUEUE, OPS_WAITS | OPS_COMPOSITE),
	OP(queue_put_twice, OPS_QUEUE, OPS_WAITS | OPS_COMPOSITE),
	OP(queue_count, OPS_QUEUE, 0),
	OP(queue_close, OPS_QUEUE, OPS_WAITS | OPS_FENCES | OPS_COMPOSITE),
	OP(queue_close_put, OPS_QUEUE, OPS_WAITS | OPS_FENCES | OPS_COMPOSITE | OPS_TWIN),
	OP(queue_close_fallback, OPS_QUEUE,
	   OPS_WAITS | OPS_FENCES | OPS_COMPOSITE | OPS_NOT_LIVE | OPS_TWIN),
	OP(block_push, OPS_BLOCKS, OPS_SIGNAL_SAFE),
	OP(block_push_by_cid, OPS_BLOCKS, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(block_pop, OPS_BLOCKS, OPS_SIGNAL_SAFE),
	OP(block_pop_by_cid, OPS_BLOCKS, OPS_SIGNAL_SAFE | OPS_TWIN),
	OP(block_push_again, OPS_BLOCKS, OPS_COMPOSITE | OPS_TWIN | OPS_STOPPED_INSIDE),
	OP(array_push, OPS_ARRAY, OPS_SIGNAL_SAFE),
	OP(array_pop, OPS_ARRAY, OPS_SIGNAL_SAFE),
	OP(array_take16, OPS_ARRAY, OPS_SIGNAL_SAFE),
	OP(array_put16, OPS_ARRAY, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_TWIN),
	OP(array_close, OPS_ARRAY, OPS_FENCES | OPS_COMPOSITE),
	OP(rcu_read, OPS_RCU, OPS_SIGNAL_SAFE | OPS_COMPOSITE),
	OP(rcu_read_slow, OPS_RCU, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_TWIN),
	OP(rcu_read_nested, OPS_RCU, OPS_COMPOSITE | OPS_TWIN),
	OP(rcu_read_fallback, OPS_RCU, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_NOT_LIVE),
	OP(rcu_leave_fallback, OPS_RCU, OPS_COMPOSITE | OPS_TWIN),
	OP(rcu_synchronize, OPS_RCU, OPS_COMPOSITE | OPS_FENCES | OPS_WAITS),
	OP(rcu_call, OPS_CALLBACKS, OPS_SIGNAL_SAFE),
	OP(rcu_call_fallback, OPS_CALLBACKS, OPS_SIGNAL_SAFE | OPS_NOT_LIVE),
	OP(rcu_batch, OPS_CALLBACKS, OPS_COMPOSITE | OPS_FENCES | OPS_WAITS),
	OP(trace_event, OPS_TRACE, OPS_SIGNAL_SAFE),
	OP(trace_event_fallback, OPS_TRACE, OPS_SIGNAL_SAFE | OPS_NOT_LIVE),
	OP(trace_pair, OPS_TRACE, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_TWIN | OPS_LONG),
	OP(trace_text, OPS_TRACE, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_TWIN | OPS_LONG),
	OP(trace_eight, OPS_TRACE, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_TWIN | OPS_LONG),
	OP(trace_sixteen, OPS_TRACE, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_TWIN | OPS_LONG),
	OP(trace_chain, OPS_TRACE, OPS_SIGNAL_SAFE | OPS_COMPOSITE | OPS_LONG),
	OP(trace_restart, OPS_TRACE,
	   OPS_COMPOSITE | OPS_FENCES | OPS_WAITS | OPS_TWIN | OPS_NO_SEQUENCE),
	OP(trace_snapshot, OPS_TRACE, OPS_COMPOSITE | OPS_LONG | OPS_TWIN | OPS_NO_SEQUENCE),
	OP(ids_acquire, OPS_IDS, 0),
	OP(ids_acquire_slow, OPS_IDS, OPS_TWIN),
	OP(ids_acquire_two, OPS_IDS, OPS_COMPOSITE | OPS_TWIN),
	OP(ids_acquire_fallback, OPS_IDS, OPS_NOT_LIVE | OPS_TWIN),
	OP(ids_release, OPS_IDS, 0),
	OP(ids_release_foreign, OPS_IDS, OPS_TWIN),
	OP(ids_release_fallback, OPS_IDS, OPS_NOT_LIVE | OPS_TWIN),
	OP(ids_exchange, OPS_IDS, OPS_COMPOSITE | OPS_TWIN),
	OP(ids_hand_over, OPS_IDS, OPS_TWIN | OPS_NO_SEQUENCE),
	OP(ids_drain, OPS_IDS, OPS_FENCES | OPS_COMPOSITE),
};
const unsigned ops_count = sizeof(ops) / sizeof(*ops);
