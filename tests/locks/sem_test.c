/* SPDX-License-Identifier: MIT */
/* near_sem: units and sleepers. */
#include "waiters.h"

static void units_are_counted(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(2), zero = {0};

	assert_int_equal(sizeof(s), 4);
	assert_int_equal(near_sem_read(&s), 2);
	near_sem_wait(&s);
	assert_true(near_sem_try_wait(&s));
	assert_false(near_sem_try_wait(&s));
	assert_int_equal(near_sem_post(&s), 0);
	assert_int_equal(near_sem_read(&s), 1);
	assert_int_equal(near_sem_wait_until(&s, 4711, NULL, NULL), 0);
	assert_int_equal(near_sem_read(&zero), 0);
	assert_false(near_sem_try_wait(&zero));
	s = (struct near_sem)NEAR_SEM_INIT(NEAR_SEM_MAX);
	assert_int_equal(near_sem_read(&s), NEAR_SEM_MAX);
	assert_int_equal(near_sem_post(&s), -EOVERFLOW);
	near_sem_wait(&s);
	assert_int_equal(near_sem_post(&s), 0);
}

static void sleepers_get_units_in_their_order(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct waiter w[4];
	unsigned order = 0;

	start_waiters(w, 4, (struct waiter){.kind = &wait_sem, .on = &s, .order = &order});
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(near_sem_post(&s), 0);
		assert_false(near_sem_try_wait(&s)); /* it was given away */
		expect(&w[i], 0);
		assert_int_equal(w[i].turn, i + 1);
	}
	assert_int_equal(near_sem_post(&s), 0);
	assert_int_equal(near_sem_read(&s), 1);
	assert_int_equal(s.word & 1, 0);
}

/* Between its announcement and the queue: the test plays a post that finds nobody there. */
static void a_late_sleeper_takes_the_unit(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct waiter w = {.kind = &wait_sem, .on = &s};
	struct near__bucket *b = near__lot_lock(&s);

	w.thread = unit_start(run_waiter, &w);
	UNTIL(__atomic_load_n(&s.word, __ATOMIC_ACQUIRE) == 1);
	usleep(2000);
	__atomic_store_n(&s.word, 2, __ATOMIC_RELEASE);
	near__lot_unlock(b);
	expect(&w, 0);
	assert_int_equal(s.word, 0);
}

UNIT_MAIN(units_are_counted, sleepers_get_units_in_their_order, a_late_sleeper_takes_the_unit)
