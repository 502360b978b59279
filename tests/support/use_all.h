/* SPDX-License-Identifier: MIT */
/* Uses of every structure, for tests that prepare the process in some way. */
#ifndef NEARCPU_TESTS_USE_ALL_H
#define NEARCPU_TESTS_USE_ALL_H

#include <nearcpu/counter.h>
#include <nearcpu/refcount.h>
#include <nearcpu/stack.h>

#include "live.h"

static inline unsigned list_length(const struct near_stack_node *list)
{
	unsigned n = 0;

	for (; list; list = list->next)
		n++;
	return n;
}

static inline void use_all(void *unused)
{
	struct near_stack_node node, *popped;
	struct near_rseq_status status = status_now();
	struct near_refcount ref;
	struct near_counter count;
	struct near_stack stack;

	CHECK(status.why && status.slots == near_slots() && status.cpus == near_cpus());
	CHECK(near_slot() < near_slots());
	CHECK(near_counter_init(&count) == 0);
	CHECK(near_stack_init(&stack) == 0);
	CHECK(near_refcount_init(&ref, NULL) == 0);
	for (int i = 0; i < 100; i++) {
		near_counter_add(&count, i);
		near_stack_push(&stack, &node);
		popped = near_stack_pop(&stack);
		CHECK((popped ? popped : near_stack_steal(&stack)) == &node);
		near_refcount_get(&ref);
	}
	CHECK(near_counter_read(&count) == 4950);
	near_refcount_kill(&ref);
	for (int i = 0; i < 100; i++)
		near_refcount_put(&ref);
	CHECK(near_refcount_is_zero(&ref));
	near_refcount_destroy(&ref);
	near_stack_destroy(&stack);
	near_counter_destroy(&count);
}

#endif
