/* SPDX-License-Identifier: MIT */
/* After a writer had to wait, loads take the lock, except those of the last thread that waited or
 * loaded in this way. */
#include "forks.h"

static void *load_once(void *unused)
{
	words_load(object, 3);
	return unused;
}

static void *store_once(void *unused)
{
	words_store(object, 3, 1);
	return unused;
}

static void in_a_thread(void *(*work)(void *))
{
	unit_join(unit_start(work, NULL));
}

static void loads_take_the_lock_in_turn(void **state)
{
	struct near__atomic_lock *l = lock_of_object();
	uint32_t loads = l->loads;

	near__set_contended(l, 2);
	load_once(NULL);
	assert_int_equal(l->loads, loads);
	in_a_thread(load_once);
	assert_int_equal(l->loads, loads + 1);
	load_once(NULL);
	assert_int_equal(l->loads, loads + 2);
	assert_int_equal(l->contended, 0);
	in_a_thread(load_once);
	assert_int_equal(l->loads, loads + 2);
}

static void loads_after_a_wait_take_the_lock(void **state)
{
	struct near__atomic_lock *l = lock_of_object();
	uint32_t loads = l->loads;
	unsigned long seen = take(l);
	pthread_t thread = unit_start(store_once, NULL);

	wait_for_sleepers(1);
	release(l, seen);
	unit_join(thread);
	load_once(NULL);
	assert_int_equal(l->loads, loads + 1);
	load_once(NULL);
	assert_int_equal(l->loads, loads + 1);
}

int main(void)
{
	if (UNIT_THREAD_SANITIZER) {
		puts("skipped: with ThreadSanitizer, all loads take the lock");
		return 77;
	}
	find_object();
	return UNIT_TESTS(loads_take_the_lock_in_turn, loads_after_a_wait_take_the_lock);
}
