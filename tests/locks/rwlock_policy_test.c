/* SPDX-License-Identifier: MIT */
/* near_rwlock: readers first, or writers. */
#include "rwlocks.h"

/* Longer than a test that goes well takes; shorter than ctest waits. */
#define LONG_MS 20000

/* A reader is inside, a writer waits, and another reader comes. */
static void readers_pass_a_writer_that_waits(void **state)
{
	static const struct timespec past = {1, 0};

	struct near_rwlock l;

	EACH_RWLOCK(&l) {
		struct timespec late = wait_in_ms(CLOCK_MONOTONIC, LONG_MS);
		struct waiter w = {0}, r = {.clock = CLOCK_MONOTONIC, .deadline = &late},
			      p = {.clock = CLOCK_REALTIME, .deadline = &past};

		near_rwlock_read_lock(&l);
		start_asleep(&w, &l, true);
		start(&r, &l, false);
		expect(&r, 0);
		start(&p, &l, false);
		expect(&p, 0);
		assert_true(another_can(try_to_read, &l));
		assert_int_equal(word_of(&l), WRITER + READER + WRITER_WAITING);
		near_rwlock_read_unlock(&l);
		expect(&w, 0);
	}
}

static void a_writer_that_waits_keeps_readers_out_where_writers_are_first(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 5);
		struct waiter w = {0}, t = {.clock = CLOCK_MONOTONIC, .deadline = &soon}, r = {0};
		struct near_rwlock l;
		unsigned order = 0;

		rwlock_init_with(&l, i, NEAR_RWLOCK_WRITERS_FIRST);
		near_rwlock_read_lock(&l);
		w.order = r.order = &order;
		start_asleep(&w, &l, true);
		assert_false(another_can(try_to_read, &l));
		start(&t, &l, false);
		expect(&t, -ETIMEDOUT);
		start_asleep(&r, &l, false);
		near_rwlock_read_unlock(&l);
		expect(&w, 0);
		expect(&r, 0);
		assert_int_equal(w.turn, 1);
		assert_int_equal(r.turn, 2);
		near_rwlock_destroy(&l);
	}
}

static void no_other_policy(void **state)
{
	struct near_rwlock l;

	assert_int_equal(near_rwlock_init_with(&l, (enum near_rwlock_policy)4711), -EINVAL);
	near_rwlock_write_lock(&l);
	assert_int_equal(word_of(&l), WRITER);
	near_rwlock_write_unlock(&l);
	near_rwlock_destroy(&l);
}

/* Readers that wait for each other inside, while writers arrive. The deadline is so far away
 * that it only ends a test that has failed. */
struct rendezvous {
	struct near_rwlock l;
	pthread_barrier_t inside;
	unsigned rounds, over;
};

static void *meet(void *arg)
{
	struct rendezvous *m = *(struct rendezvous **)arg;
	struct timespec late = wait_in_ms(CLOCK_MONOTONIC, LONG_MS);

	for (unsigned i = 0; i < m->rounds; i++) {
		CHECK(near_rwlock_read_lock_until(&m->l, CLOCK_MONOTONIC, &late, NULL) == 0);
		pthread_barrier_wait(&m->inside);
		near_rwlock_read_unlock(&m->l);
	}
	__atomic_store_n(&m->over, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *write_until_over(void *arg)
{
	struct rendezvous *m = arg;

	while (!__atomic_load_n(&m->over, __ATOMIC_ACQUIRE)) {
		near_rwlock_write_lock(&m->l);
		near_rwlock_write_unlock(&m->l);
		usleep(20);
	}
	return NULL;
}

static void readers_meet_while_writers_come(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rendezvous m = {.rounds = unit_scale(2000)}, *all[3] = {&m, &m, &m};
		pthread_t writers[2];

		rwlock_init(&m.l, i);
		pthread_barrier_init(&m.inside, NULL, LENGTH(all));
		for (unsigned k = 0; k < LENGTH(writers); k++)
			writers[k] = unit_start(write_until_over, &m);
		unit_run(meet, all, sizeof(all[0]), LENGTH(all));
		for (unsigned k = 0; k < LENGTH(writers); k++)
			unit_join(writers[k]);
		pthread_barrier_destroy(&m.inside);
		assert_false(has_readers(&m.l));
		near_rwlock_destroy(&m.l);
	}
}

UNIT_MAIN(readers_pass_a_writer_that_waits,
	  a_writer_that_waits_keeps_readers_out_where_writers_are_first, no_other_policy,
	  readers_meet_while_writers_come)
