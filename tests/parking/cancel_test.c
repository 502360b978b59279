/* SPDX-License-Identifier: MIT */
/* near_cancel and fork: the waits of the parent are none of the child's. What a token does to waits
 * is tested with each of them. */
#include "waiters.h"

#include "parking/cancel.h"

#define FORKS 200
#define GUARDED (64 * 1024) /* bytes of a stack, of which musl has twice as many */

static struct near_cancel token;
static struct near_sem sem;

static struct waiter waiter_for_token(void)
{
	return (struct waiter){.kind = &wait_sem, .on = &sem, .cancel = &token};
}

static void the_state_is_small(void **state)
{
	struct near_cancel zero = {0}, init = NEAR_CANCEL_INIT;

	assert_int_equal(sizeof(struct near_cancel), 8 + sizeof(void *));
	assert_memory_equal(&zero, &init, sizeof(zero));
}

static unsigned waits_in_list(void)
{
	struct near__bucket *b = near__lot_lock(&token);
	const struct near__cancel_wait *wait = token.waits;
	unsigned n = 0;

	for (; wait; wait = wait->next)
		n++;
	near__lot_unlock(b);
	return n;
}

/* In whatever order: the last that came, the first, and the one between. */
static void waits_leave_the_list(void **state)
{
	static const unsigned order[] = {2, 0, 1};
	struct near_sem sems[3] = {NEAR_SEM_INIT(0), NEAR_SEM_INIT(0), NEAR_SEM_INIT(0)};
	struct waiter w[3];

	near_cancel_reset(&token);
	for (unsigned i = 0; i < 3; i++) {
		w[i] = waiter_for_token();
		w[i].on = &sems[i];
		start_waiter(&w[i]);
		UNTIL(waits_in_list() == i + 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(near_sem_post(&sems[order[i]]), 0);
		expect(&w[order[i]], 0);
		assert_int_equal(waits_in_list(), 2 - i);
	}
}

/* The C library gives the stacks of the parent's threads to the child's. */
static void *set_above_zeros(void *unused)
{
	unsigned char zeros[GUARDED];
	unsigned sum = 0;

	memset(zeros, 0, sizeof(zeros));
	__asm__ volatile("" : : "r"(zeros) : "memory");
	near_cancel_set(&token);
	for (size_t i = 0; i < sizeof(zeros); i++)
		sum += zeros[i];
	CHECK(sum == 0);
	return unused;
}

/* More than are notified at a time, so that the list is traversed twice. */
static void a_child_touches_no_waits_of_its_parent(void **state)
{
	struct waiter w[20], of_child;

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it allows no thread there */
	near_cancel_reset(&token);
	start_waiters(w, LENGTH(w), waiter_for_token());
	IN_CHILD() {
		start_waiters(&of_child, 1, waiter_for_token());
		unit_join(unit_start(set_above_zeros, NULL));
		unit_join(of_child.thread);
		CHECK(near_cancel_is_set(&token));
	}
	assert_false(near_cancel_is_set(&token));
	assert_int_equal(waits_of(&w[0]), LENGTH(w));
	near_cancel_set(&token);
	for (unsigned i = 0; i < LENGTH(w); i++)
		expect(&w[i], -ECANCELED);
}

static const struct timespec past = {0, 0};

static void *join_and_leave(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
		CHECK(near_sem_wait_until(&sem, CLOCK_MONOTONIC, &past, &token) == -ETIMEDOUT);
	return NULL;
}

/* Forks that come while the list is being changed: the lock is free in the child. */
static void a_fork_may_come_at_any_time(void **state)
{
	bool stop = false;
	pthread_t busy[2];

	near_cancel_reset(&token);
	for (unsigned i = 0; i < LENGTH(busy); i++)
		busy[i] = unit_start(join_and_leave, &stop);
	for (unsigned i = 0; i < (unit_emulated() ? FORKS / 20 : FORKS); i++)
		IN_CHILD() {
			CHECK(near_sem_wait_until(&sem, CLOCK_MONOTONIC, &past, &token) ==
			      -ETIMEDOUT);
			near_cancel_set(&token);
			CHECK(near_sem_wait_until(&sem, CLOCK_MONOTONIC, NULL, &token) ==
			      -ECANCELED);
		}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < LENGTH(busy); i++)
		unit_join(busy[i]);
}

UNIT_MAIN(the_state_is_small, waits_leave_the_list, a_child_touches_no_waits_of_its_parent,
	  a_fork_may_come_at_any_time)
