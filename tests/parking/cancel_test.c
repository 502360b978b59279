/* SPDX-License-Identifier: MIT */
/* near_cancel and fork: the waits of the parent are none of the child's. What a token does to waits
 * is tested with each of them. */
#include "waits.h"

#include <nearcpu/sem.h>

#include "parking/cancel.h"

#define FORKS 200
#define GUARDED (64 * 1024) /* bytes of a stack, of which musl has twice as many */

static struct near_cancel token;
static struct near_sem sem;

static void *wait_for_token(void *unused)
{
	near_sem_wait_until(&sem, CLOCK_MONOTONIC, NULL, &token);
	return unused;
}

static void the_state_is_small(void **state)
{
	struct near_cancel zero = {0}, init = NEAR_CANCEL_INIT;

	assert_int_equal(sizeof(struct near_cancel), 16);
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

struct single {
	struct near_sem sem;
	pthread_t thread;
};

static void *wait_alone(void *single)
{
	CHECK(near_sem_wait_until(&((struct single *)single)->sem, 0, NULL, &token) == 0);
	return NULL;
}

/* In whatever order: the last that came, the first, and the one between. */
static void waits_leave_the_list(void **state)
{
	static const unsigned order[] = {2, 0, 1};
	struct single s[3] = {{.thread = 0}};

	near_cancel_reset(&token);
	for (unsigned i = 0; i < 3; i++) {
		s[i].thread = unit_start(wait_alone, &s[i]);
		wait_for_waits(&s[i].sem, NEAR__SPACE_SEM, 1);
		while (waits_in_list() != i + 1)
			usleep(100);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(near_sem_post(&s[order[i]].sem), 0);
		unit_join(s[order[i]].thread);
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

static void set_in_child(void *unused)
{
	pthread_t waits = unit_start(wait_for_token, NULL);

	wait_for_waits(&sem, NEAR__SPACE_SEM, 1);
	unit_join(unit_start(set_above_zeros, NULL));
	unit_join(waits);
	CHECK(near_cancel_is_set(&token));
}

/* More than are notified at a time, so that the list is traversed twice. */
static void a_child_touches_no_waits_of_its_parent(void **state)
{
	pthread_t waits[20];

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it allows no thread there */
	near_cancel_reset(&token);
	for (unsigned i = 0; i < LENGTH(waits); i++)
		waits[i] = unit_start(wait_for_token, NULL);
	wait_for_waits(&sem, NEAR__SPACE_SEM, LENGTH(waits));
	unit_in_child(set_in_child, NULL);
	assert_false(near_cancel_is_set(&token));
	assert_int_equal(waits_on(&sem, NEAR__SPACE_SEM), LENGTH(waits));
	near_cancel_set(&token);
	for (unsigned i = 0; i < LENGTH(waits); i++)
		unit_join(waits[i]);
}

static void *join_and_leave(void *stop)
{
	struct timespec past = {0, 0};

	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
		CHECK(near_sem_wait_until(&sem, CLOCK_MONOTONIC, &past, &token) == -ETIMEDOUT);
	return NULL;
}

static void set_alone(void *unused)
{
	struct timespec past = {0, 0};

	CHECK(near_sem_wait_until(&sem, CLOCK_MONOTONIC, &past, &token) == -ETIMEDOUT);
	near_cancel_set(&token);
	CHECK(near_sem_wait_until(&sem, CLOCK_MONOTONIC, NULL, &token) == -ECANCELED);
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
		unit_in_child(set_alone, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < LENGTH(busy); i++)
		unit_join(busy[i]);
}

UNIT_MAIN(the_state_is_small, waits_leave_the_list, a_child_touches_no_waits_of_its_parent,
	  a_fork_may_come_at_any_time)
