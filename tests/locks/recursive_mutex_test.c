/* SPDX-License-Identifier: MIT */
/* near_recursive_mutex: levels, waits, a fork, misuse, and threads that take it again. */
#include "waits.h"

#include <nearcpu/cond.h>
#include <nearcpu/recursive_mutex.h>

static const struct timespec past = {0, 0};

static void levels_are_counted(void **state)
{
	struct near_recursive_mutex m = NEAR_RECURSIVE_MUTEX_INIT, zero = {{0}, 0};

	assert_int_equal(sizeof(m), 8);
	assert_memory_equal(&m, &zero, sizeof(m));
	assert_int_equal(near_recursive_mutex_depth(&m), 0);
	near_recursive_mutex_lock(&m);
	near_recursive_mutex_lock(&m);
	assert_true(near_recursive_mutex_try_lock(&m));
	assert_int_equal(near_recursive_mutex_lock_until(&m, CLOCK_MONOTONIC, &past, NULL), 0);
	assert_int_equal(near_recursive_mutex_depth(&m), 4);
	for (int i = 4; i; i--) {
		assert_true(near_mutex_is_mine(&m.mutex));
		near_recursive_mutex_unlock(&m);
	}
	assert_memory_equal(&m, &zero, sizeof(m));
	near_recursive_mutex_destroy(&m);
}

static void *try_there(void *arg)
{
	struct near_recursive_mutex *m = arg;

	CHECK(near_recursive_mutex_depth(m) == 0);
	CHECK(!near_recursive_mutex_try_lock(m));
	CHECK(near_recursive_mutex_lock_until(m, CLOCK_REALTIME, &past, NULL) == -ETIMEDOUT);
	CHECK(near_recursive_mutex_lock_until(m, 4711, &past, NULL) == -EINVAL);
	return NULL;
}

static void others_wait_for_the_last_unlock(void **state)
{
	struct near_recursive_mutex m = NEAR_RECURSIVE_MUTEX_INIT;

	near_recursive_mutex_lock(&m);
	near_recursive_mutex_lock(&m);
	unit_join(unit_start(try_there, &m));
	near_recursive_mutex_unlock(&m);
	unit_join(unit_start(try_there, &m));
	near_recursive_mutex_unlock(&m);
	assert_true(near_recursive_mutex_try_lock(&m));
	near_recursive_mutex_unlock(&m);
}

static struct {
	struct near_recursive_mutex m;
	struct near_cond c;
	long sum;
	bool go;
	unsigned rounds;
} all;

static void add_by_levels(unsigned levels)
{
	near_recursive_mutex_lock(&all.m);
	if (levels)
		add_by_levels(levels - 1);
	else
		all.sum++;
	near_recursive_mutex_unlock(&all.m);
}

static void *add(void *unused)
{
	for (unsigned i = 0; i < all.rounds; i++)
		add_by_levels(i % 4);
	return unused;
}

static void no_increment_is_lost(void **state)
{
	char none[4];

	all.rounds = unit_scale(20000);
	unit_run(add, none, 1, LENGTH(none));
	assert_int_equal(all.sum, all.rounds * LENGTH(none));
	assert_int_equal(all.m.again, 0);
}

static void *open_up(void *unused)
{
	near_recursive_mutex_lock(&all.m);
	near_recursive_mutex_lock(&all.m);
	all.go = true;
	near_cond_signal(&all.c);
	near_recursive_mutex_unlock(&all.m);
	near_recursive_mutex_unlock(&all.m);
	return unused;
}

static void it_waits_for_conditions_when_held_once(void **state)
{
	pthread_t t;

	near_recursive_mutex_lock(&all.m);
	t = unit_start(open_up, NULL);
	while (!all.go)
		near_cond_wait(&all.c, near_recursive_mutex_inner(&all.m));
	assert_int_equal(near_recursive_mutex_depth(&all.m), 1);
	near_recursive_mutex_unlock(&all.m);
	unit_join(t);
}

static void it_is_held_over_a_fork(void **state)
{
	near_recursive_mutex_lock(&all.m);
	near_recursive_mutex_lock(&all.m);
	IN_CHILD() {
		CHECK(near_recursive_mutex_depth(&all.m) == 2);
		near_recursive_mutex_lock(&all.m);
		CHECK(near_recursive_mutex_try_lock(&all.m));
		for (int i = 0; i < 4; i++)
			near_recursive_mutex_unlock(&all.m);
		CHECK(near_recursive_mutex_depth(&all.m) == 0);
	}
	near_recursive_mutex_unlock(&all.m);
	near_recursive_mutex_unlock(&all.m);
}

static void misuse_stops_the_program(void **state)
{
	DIES("near_recursive_mutex_unlock: this thread does not hold the mutex")
		near_recursive_mutex_unlock(&all.m);
	DIES("near_recursive_mutex_inner: this thread does not hold the mutex")
		near_recursive_mutex_inner(&all.m);
	DIES("near_recursive_mutex_inner: this thread holds the mutex more than once") {
		near_recursive_mutex_lock(&all.m);
		near_recursive_mutex_lock(&all.m);
		near_cond_wait(&all.c, near_recursive_mutex_inner(&all.m));
	}
	DIES("near_recursive_mutex_lock: locked 4,294,967,296 times") {
		near_recursive_mutex_lock(&all.m);
		all.m.again = UINT32_MAX;
		near_recursive_mutex_lock(&all.m);
	}
}

UNIT_MAIN(levels_are_counted, others_wait_for_the_last_unlock, no_increment_is_lost,
	  it_waits_for_conditions_when_held_once, it_is_held_over_a_fork, misuse_stops_the_program)
