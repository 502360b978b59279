/* SPDX-License-Identifier: MIT */
/* Static counters, stacks and reference counts that are ready before main. */
#include "unit.h"

#include <nearcpu/counter.h>
#include <nearcpu/refcount.h>
#include <nearcpu/stack.h>

static unsigned released;

static void gone(struct near_refcount *r)
{
	released++;
}

static struct near_counter counter;
NEAR_EARLY(counter, near_counter_init(&counter));
static struct near_stack stack;
NEAR_EARLY(stack, near_stack_init(&stack));
static struct near_refcount refcount;
NEAR_EARLY(refcount, near_refcount_init(&refcount, gone));
static struct near_stack_node node;

__attribute__((constructor)) static void use_before_main(void)
{
	near_counter_add(&counter, 3);
	near_stack_push(&stack, &node);
	near_refcount_get(&refcount);
}

static void constructors_use_them(void **state)
{
	near_counter_add(&counter, 1);
	assert_int_equal(near_counter_read(&counter), 4);
	assert_ptr_equal(near_stack_steal(&stack), &node);
	near_refcount_kill(&refcount);
	assert_int_equal(released, 0);
	near_refcount_put(&refcount);
	assert_int_equal(released, 1);
}

static void without_memory_the_program_stops(void **state)
{
	DIES("no memory for the static object hits")
		near__init_early(-ENOMEM, "hits");
}

UNIT_MAIN(constructors_use_them, without_memory_the_program_stops)
