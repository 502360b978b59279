/* SPDX-License-Identifier: MIT */
/* The inline functions of the library, out of line, and what operations share. */
#include "objects.h"

#include <stdlib.h>

#include "percpu/percpu.h"
#include "../../examples/sequence.h" /* the sequence that near_seq(7) explains */

#define CALL(type, name, parameters, ...)                                                          \
	__attribute__((noinline)) type name parameters                                             \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

CALL(void, call_add, (int64_t n), near_counter_add(&OBJ.counter, n))
CALL(void, call_add_shared, (int64_t n), near_shared_counters_add(&OBJ.shared, OPS_SHARED_INDEX, n))
CALL(void, call_record, (struct near_histogram * h, uint64_t value, uint64_t n),
     near_histogram_record_n(h, value, n))
CALL(void, call_push, (struct near_stack_node * node), near_stack_push(&OBJ.stack, node))
CALL(void, call_push_chain, (struct near_stack_node * first, struct near_stack_node *last),
     near_stack_push_chain(&OBJ.stack, first, last))
CALL(struct near_stack_node *, call_pop, (void), return near_stack_pop(&OBJ.stack))
CALL(void, call_get, (void), near_refcount_get(&OBJ.refcount))
CALL(void, call_put, (void), near_refcount_put(&OBJ.refcount))
CALL(bool, call_try_get, (void), return near_refcount_try_get(&OBJ.refcount))
CALL(bool, call_try_get_live, (void), return near_refcount_try_get_live(&OBJ.refcount))
CALL(void, call_lock, (struct near_mutex * m), near_mutex_lock(m))
CALL(void, call_unlock, (struct near_mutex * m), near_mutex_unlock(m))
CALL(int, call_queue_put, (void *element), return near_queue_try_put(&OBJ.queue, element))
CALL(bool, call_try_read_lock, (void), return near_rwlock_try_read_lock(&OBJ.rwlock))
CALL(void, call_read_unlock, (void), near_rwlock_read_unlock(&OBJ.rwlock))

__attribute__((noinline)) void call_raise_to(struct actor *me, uint64_t n)
{
	me->peak = n > me->peak ? n : me->peak;
	peak_raise(OBJ.peak, n);
}

void result(struct actor *me, const void *value)
{
	if (me->n == OPS_RESULTS)
		abort();
	me->results[me->n++] = (void *)(uintptr_t)value;
}

void number(struct actor *me, int64_t value)
{
	result(me, (void *)(intptr_t)value);
}

void not_live(void (*run)(struct actor *me), struct actor *me)
{
	struct near__thread saved = near__self;

	near__self.area = &near__dead;
	*(volatile uint32_t *)&near__self.state = NEAR__VFORKED;
	run(me);
	near__self.area = saved.area;
	*(volatile uint32_t *)&near__self.state = saved.state;
}
