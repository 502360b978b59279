/* SPDX-License-Identifier: MIT */
/* near_sem: units, sleepers, and a stress test in which units are counted. */
#include "waits.h"

#include <nearcpu/sem.h>

struct waiter {
	struct near_sem *s;
	struct near_cancel *cancel;
	const struct timespec *deadline;
	clockid_t clock;
	int result;
	unsigned *order, turn;
	pthread_t thread;
};

static void *wait_there(void *arg)
{
	struct waiter *w = arg;

	errno = UNIT_ERRNO;
	w->result = near_sem_wait_until(w->s, w->clock, w->deadline, w->cancel);
	CHECK(errno == UNIT_ERRNO);
	if (w->order)
		w->turn = __atomic_add_fetch(w->order, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void start_waiter(struct waiter *w)
{
	unsigned before = waits_on(w->s, NEAR__SPACE_SEM);

	w->thread = unit_start(wait_there, w);
	wait_for_waits(w->s, NEAR__SPACE_SEM, before + 1);
}

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

	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct waiter){.s = &s, .order = &order};
		start_waiter(&w[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(near_sem_post(&s), 0);
		assert_false(near_sem_try_wait(&s)); /* it was given away */
		unit_join(w[i].thread);
		assert_int_equal(w[i].result, 0);
		assert_int_equal(w[i].turn, i + 1);
	}
	assert_int_equal(near_sem_post(&s), 0);
	assert_int_equal(near_sem_read(&s), 1);
	assert_int_equal(s.word & 1, 0);
}

static void deadlines_and_tokens_end_waits(void **state)
{
	static const struct timespec past = {0, 0}, negative = {-1, 0}, wrong = {1, 1000000000};
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_sem s = NEAR_SEM_INIT(0);
	struct waiter w = {.s = &s, .cancel = &token};

	for (size_t i = 0; i < LENGTH(wait_clocks); i++) {
		struct timespec soon = wait_in_ms(wait_clocks[i], 10);

		assert_int_equal(near_sem_wait_until(&s, wait_clocks[i], &soon, NULL), -ETIMEDOUT);
		assert_true(wait_is_past(wait_clocks[i], soon));
		assert_int_equal(near_sem_wait_until(&s, wait_clocks[i], &negative, NULL),
				 -ETIMEDOUT);
	}
	assert_int_equal(near_sem_wait_until(&s, CLOCK_REALTIME, &wrong, NULL), -EINVAL);
	assert_int_equal(near_sem_wait_until(&s, 4711, &past, NULL), -EINVAL);
	start_waiter(&w);
	near_cancel_set(&token);
	unit_join(w.thread);
	assert_int_equal(w.result, -ECANCELED);
	/* A unit that is there is taken in any case. */
	assert_int_equal(near_sem_post(&s), 0);
	assert_int_equal(near_sem_wait_until(&s, CLOCK_REALTIME, &past, &token), 0);
	assert_int_equal(near_sem_wait_until(&s, CLOCK_REALTIME, NULL, &token), -ECANCELED);
}

/* Between its announcement and the queue: the test plays a post that finds nobody there. */
static void a_late_sleeper_takes_the_unit(void **state)
{
	struct near_sem s = NEAR_SEM_INIT(0);
	struct waiter w = {.s = &s};
	struct near__bucket *b = near__lot_lock(&s);

	w.thread = unit_start(wait_there, &w);
	while (__atomic_load_n(&s.word, __ATOMIC_ACQUIRE) != 1)
		usleep(100);
	usleep(2000);
	__atomic_store_n(&s.word, 2, __ATOMIC_RELEASE);
	near__lot_unlock(b);
	unit_join(w.thread);
	assert_int_equal(w.result, 0);
	assert_int_equal(s.word, 0);
}

static struct {
	struct near_sem s;
	unsigned rounds, got, posted;
	uint64_t seed;
} stress;

static void *rage(void *arg)
{
	uint64_t random = __atomic_add_fetch(&stress.seed, 1, __ATOMIC_RELAXED);
	unsigned got = 0;

	for (unsigned i = 0; i < stress.rounds; i++) {
		uint32_t r = unit_random(&random);
		struct timespec soon = wait_in_ns(r >> 8 & 0xfff);
		bool have = true;

		if (r % 3 == 0)
			have = near_sem_try_wait(&stress.s);
		else if (r % 3 == 1)
			have = near_sem_wait_until(&stress.s, CLOCK_MONOTONIC, &soon, NULL) == 0;
		else
			near_sem_wait(&stress.s);
		got += have;
		if (r % 16 == 0)
			sched_yield();
		if (have)
			CHECK(near_sem_post(&stress.s) == 0);
	}
	__atomic_fetch_add(&stress.got, got, __ATOMIC_RELAXED);
	return NULL;
}

static void stress_keeps_the_units(void **state)
{
	char none[8];

	stress.s = (struct near_sem)NEAR_SEM_INIT(2);
	stress.rounds = unit_scale(10000);
	unit_run(rage, none, 1, LENGTH(none));
	assert_true(stress.got > 0);
	assert_int_equal(near_sem_read(&stress.s), 2);
	assert_int_equal(waits_on(&stress.s, NEAR__SPACE_SEM), 0);
}

UNIT_MAIN(units_are_counted, sleepers_get_units_in_their_order, deadlines_and_tokens_end_waits,
	  a_late_sleeper_takes_the_unit, stress_keeps_the_units)
