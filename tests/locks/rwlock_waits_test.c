/* SPDX-License-Identifier: MIT */
/* near_rwlock: which threads wait for which others, by either policy, and what ends the waits. */
#include "rwlocks.h"

/* ---- nested ---- */

static void nested_readers_pass_a_waiting_writer(void **state)
{
	struct near_rwlock locks[4];

	for (unsigned i = 0; i < 4; i++) {
		struct near_rwlock *l = &locks[i];
		struct waiter w = {0};

		rwlock_init_with(l, i % 2, i / 2);
		near_rwlock_read_lock(l);
		start_asleep(&w, l, true);
		assert_int_equal(another_can(try_to_read, l), i / 2 == NEAR_RWLOCK_READERS_FIRST);
		near_rwlock_read_lock(l);
		assert_true(near_rwlock_try_read_lock(l));
		near_rwlock_read_unlock(l);
		near_rwlock_read_unlock(l);
		assert_int_equal(word_of(l), WRITER + READER + WRITER_WAITING);
		near_rwlock_read_unlock(l);
		expect(&w, 0);
		assert_int_equal(word_of(l), 0);
		near_rwlock_destroy(l);
	}
}

#define MANY 7

static void a_thread_reads_more_locks_than_it_knows_by_name(void **state)
{
	struct near_rwlock l[MANY];
	struct waiter w[MANY];

	memset(w, 0, sizeof(w));
	for (unsigned i = 0; i < MANY; i++) {
		near_rwlock_init(&l[i], NULL);
		near_rwlock_read_lock(&l[i]);
	}
	assert_int_equal(near__more.reads.others, MANY - NEAR__HOLDS);
	for (unsigned i = 0; i < MANY; i++) {
		start_asleep(&w[i], &l[i], true);
		near_rwlock_read_lock(&l[i]);
	}
	for (unsigned i = 0; i < MANY; i++) {
		near_rwlock_read_unlock(&l[i]);
		assert_int_equal(readers_of(word_of(&l[i])), 1);
		near_rwlock_read_unlock(&l[i]);
		expect(&w[i], 0);
		assert_int_equal(word_of(&l[i]), 0);
		near_rwlock_destroy(&l[i]);
	}
	assert_int_equal(near__more.reads.others, 0);
}

/* It reads others, but not this one: no writer may be passed. */
static void a_reader_that_is_not_nested_waits_in_any_case(void **state)
{
	static const struct timespec past = {1, 0};
	struct near_rwlock l[NEAR__HOLDS + 1], other;
	unsigned release = 0;
	struct waiter w = {.release = &release};

	near_rwlock_init(&other, NULL);
	for (unsigned i = 0; i <= NEAR__HOLDS; i++) {
		near_rwlock_init(&l[i], NULL);
		near_rwlock_read_lock(&l[i]);
	}
	start(&w, &other, true);
	while (state_of(&other) != WRITER)
		usleep(100);
	assert_false(near_rwlock_try_read_lock(&other));
	assert_int_equal(near_rwlock_read_lock_until(&other, CLOCK_REALTIME, &past, NULL),
			 -ETIMEDOUT);
	__atomic_store_n(&release, 1, __ATOMIC_RELEASE);
	expect(&w, 0);
	for (unsigned i = 0; i <= NEAR__HOLDS; i++) {
		near_rwlock_read_unlock(&l[i]);
		near_rwlock_destroy(&l[i]);
	}
	near_rwlock_destroy(&other);
}

/* ---- which waits for which ---- */

static void a_writer_that_leaves_lets_all_sleeping_readers_in(void **state)
{
	struct near_rwlock l;
	unsigned order = 0, release = 0;
	struct waiter r[6], w = {.order = &order};

	near_rwlock_init(&l, NULL);
	near_rwlock_write_lock(&l);
	for (unsigned i = 0; i < 6; i++) {
		r[i] = (struct waiter){.order = &order, .release = &release};
		start(&r[i], &l, false);
	}
	wait_for_sleepers(&l, 6);
	assert_int_equal(word_of(&l), WRITER + PARKED);
	start(&w, &l, true);
	wait_for_writers(&l, 1);
	near_rwlock_write_unlock(&l);
	/* All are in together, and the writer comes after them. */
	while (__atomic_load_n(&order, __ATOMIC_ACQUIRE) < 6)
		usleep(100);
	wait_for_sleepers(&l, 1);
	assert_int_equal(state_of(&l), WRITER + 6 * READER + WRITER_WAITING);
	__atomic_store_n(&release, 1, __ATOMIC_RELEASE);
	expect(&w, 0);
	assert_int_equal(w.turn, 7);
	for (unsigned i = 0; i < 6; i++)
		expect(&r[i], 0);
	assert_int_equal(state_of(&l), 0);
	near_rwlock_destroy(&l);
}

/* The previous writer has released the mutex, but not yet left. */
static void the_next_writer_waits_until_the_one_before_has_left(void **state)
{
	struct near_rwlock l = NEAR_RWLOCK_INIT;
	unsigned order = 0;
	struct waiter w = {.order = &order}, r = {.order = &order};

	near_rwlock_write_lock(&l);
	near_mutex_unlock(&l.writers);
	start_asleep(&w, &l, true);
	assert_int_equal(word_of(&l), 2 * WRITER + WRITER_WAITING);
	start_asleep(&r, &l, false);
	assert_int_equal(order, 0);
	near__rwlock_leave(&l, 0);
	expect(&r, 0);
	expect(&w, 0);
	assert_int_equal(r.turn, 1);
	assert_int_equal(word_of(&l), 0);
	/* The same without readers. */
	near_rwlock_write_lock(&l);
	near_mutex_unlock(&l.writers);
	start_asleep(&w, &l, true);
	near__rwlock_leave(&l, 0);
	expect(&w, 0);
	assert_int_equal(w.turn, 3);
	assert_int_equal(word_of(&l), 0);
}

/* Or a reader could free the lock before that one has left. */
static void a_writer_that_gives_up_admits_none_before_the_previous_has_left(void **state)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 30);
	struct near_rwlock l = NEAR_RWLOCK_INIT;
	unsigned order = 0;
	struct waiter w = {.clock = CLOCK_MONOTONIC, .deadline = &soon}, r = {.order = &order};

	near_rwlock_write_lock(&l);
	start_asleep(&r, &l, false);
	near_mutex_unlock(&l.writers);
	start(&w, &l, true);
	expect(&w, -ETIMEDOUT);
	assert_int_equal(word_of(&l), WRITER + PARKED);
	assert_int_equal(sleepers_of(&l), 1);
	near__rwlock_leave(&l, 0);
	expect(&r, 0);
	assert_int_equal(word_of(&l), 0);
}

static void downgrade_lets_readers_in_and_no_writer(void **state)
{
	struct near_rwlock l;
	unsigned order = 0;
	struct waiter w = {.order = &order}, r = {.order = &order};

	near_rwlock_init(&l, NULL);
	near_rwlock_write_lock(&l);
	start(&w, &l, true);
	wait_for_writers(&l, 1);
	start_asleep(&r, &l, false);
	near_rwlock_downgrade(&l);
	assert_false(near_rwlock_is_mine(&l));
	expect(&r, 0);
	wait_for_sleepers(&l, 1);
	assert_int_equal(r.turn, 1);
	assert_int_equal(state_of(&l), WRITER + READER + WRITER_WAITING);
	near_rwlock_read_lock(&l);
	near_rwlock_read_unlock(&l);
	assert_int_equal(order, 1);
	near_rwlock_read_unlock(&l);
	expect(&w, 0);
	assert_int_equal(w.turn, 2);
	near_rwlock_destroy(&l);
}

/* Until a thread waits for the bucket, whose lock the caller holds. */
static void wait_for_bucket(const struct near__bucket *b)
{
	while (__atomic_load_n(&b->lock.word, __ATOMIC_RELAXED) / NEAR__LOCK_ONE < 2)
		usleep(100);
}

/* What it would sleep for is over when it comes to the queue. */
static void no_thread_sleeps_for_one_that_has_left(void **state)
{
	struct near_rwlock l = NEAR_RWLOCK_INIT;
	struct waiter r = {0}, w = {0};
	struct near__bucket *b;

	near_rwlock_write_lock(&l);
	b = near__lot_lock(&l);
	start(&r, &l, false);
	wait_for_bucket(b);
	near_rwlock_write_unlock(&l);
	near__lot_unlock(b);
	expect(&r, 0);
	near_rwlock_read_lock(&l);
	b = near__lot_lock(&l);
	start(&w, &l, true);
	wait_for_bucket(b);
	near_rwlock_read_unlock(&l);
	near__lot_unlock(b);
	expect(&w, 0);
	assert_int_equal(word_of(&l), 0);
}

/* ---- waits that end ---- */

/* A writer that gives up admits the readers that it kept out. */
static void a_token_ends_waits(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_rwlock l;
	unsigned order = 0;
	struct waiter w = {.cancel = &token}, r = {.order = &order}, q = {.cancel = &token};

	rwlock_init_with(&l, true, NEAR_RWLOCK_WRITERS_FIRST);
	near_rwlock_read_lock(&l);
	start_asleep(&w, &l, true);
	start_asleep(&r, &l, false);
	near_cancel_set(&token);
	expect(&w, -ECANCELED);
	expect(&r, 0);
	assert_int_equal(r.turn, 1);
	assert_int_equal(state_of(&l), READER);
	near_rwlock_read_unlock(&l);
	near_rwlock_write_lock(&l);
	start(&q, &l, false);
	expect(&q, -ECANCELED);
	near_rwlock_write_unlock(&l);
	assert_int_equal(state_of(&l), 0);
	near_rwlock_destroy(&l);
}

/* ---- readers first, or writers ---- */

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
	const struct near_rwlock_options o = {.policy = (enum near_rwlock_policy)4711};
	struct near_rwlock l;

	assert_int_equal(near_rwlock_init(&l, &o), -EINVAL);
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

UNIT_MAIN(nested_readers_pass_a_waiting_writer, a_thread_reads_more_locks_than_it_knows_by_name,
	  a_reader_that_is_not_nested_waits_in_any_case,
	  a_writer_that_leaves_lets_all_sleeping_readers_in,
	  the_next_writer_waits_until_the_one_before_has_left,
	  a_writer_that_gives_up_admits_none_before_the_previous_has_left,
	  downgrade_lets_readers_in_and_no_writer, no_thread_sleeps_for_one_that_has_left,
	  a_token_ends_waits, readers_pass_a_writer_that_waits,
	  a_writer_that_waits_keeps_readers_out_where_writers_are_first, no_other_policy,
	  readers_meet_while_writers_come)
