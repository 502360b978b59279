/* SPDX-License-Identifier: MIT */
/* near_mutex: its steps one by one, with waiters that the test plays itself; waits and what ends
 * them; near_mutex_await; that no kind of waiter waits for long because of another kind, or of one
 * that was woken and does not come. The program is linked with --wrap=clock_gettime. */
#include "played_waiters.h"

#include "clock.h"

/* CLOCK_MONOTONIC always shows this, unless it is 0. */
static long frozen_ms;

static int64_t clock_of_test(clockid_t clock)
{
	long ms = __atomic_load_n(&frozen_ms, __ATOMIC_RELAXED);

	return ms && clock == CLOCK_MONOTONIC ? 1000 * INT64_C(1000000000) + ms * MS : REAL_CLOCK;
}

static void freeze_at(long ms)
{
	__atomic_store_n(&frozen_ms, ms, __ATOMIC_RELAXED);
}

/* ---- states ---- */

static struct near_mutex early;
static bool early_was_mine, early_is_free;

/* Runs before any constructor without a priority of its own, those of the library included. */
__attribute__((constructor(101))) static void use_before_constructors(void)
{
	near_mutex_lock(&early);
	early_was_mine = near_mutex_is_mine(&early) && !near_mutex_try_lock(&early);
	near_mutex_unlock(&early);
	early_is_free = near_mutex_try_lock(&early);
	near_mutex_unlock(&early);
}

static void zero_is_a_free_mutex(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;

	assert_int_equal(sizeof(struct near_mutex), 4);
	assert_true(early_was_mine && early_is_free);
	assert_int_equal(word_of(&m), 0);
	near_mutex_lock(&m);
	assert_int_equal(word_of(&m), me());
	assert_true(near_mutex_is_mine(&m));
	assert_false(near_mutex_try_lock(&m));
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
	assert_false(near_mutex_is_mine(&m));
	assert_true(near_mutex_try_lock(&m));
	near_mutex_unlock_fair(&m);
	assert_int_equal(word_of(&m), 0);
	near_mutex_destroy(&m);
}

static void *lock_in_new_thread(void *arg)
{
	struct near_mutex *m = arg;

	/* A thread's first call, whichever it is, sets its owner number. */
	CHECK(!near_mutex_is_mine(m));
	CHECK(near_mutex_try_lock(m));
	CHECK(near_mutex_is_mine(m));
	near_mutex_unlock(m);
	return NULL;
}

static void threads_are_different_owners(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;

	unit_join(unit_start(lock_in_new_thread, &m));
	assert_int_equal(word_of(&m), 0);
}

/* ---- steps: the test plays the waiters ---- */

static void an_unlock_wakes_the_first_if_young(void **state)
{
	struct near_mutex m = {me() | PARKED};
	struct near__waiter w[2];

	freeze_at(500);
	play(&m, &w[0], 0);
	play(&m, &w[1], 0);
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), PARKED | WAKING);
	assert_true(was_woken(&w[0]));
	/* Until it runs no other waiter is woken, and the bits stay as they are. */
	near_mutex_lock(&m);
	assert_int_equal(word_of(&m), me() | PARKED | WAKING);
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), PARKED | WAKING);
	assert_true(near_mutex_try_lock(&m));
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), PARKED | WAKING);
	assert_true(w[1].queued);
	/* The last one leaves no PARKED behind. */
	m.word = me() | PARKED;
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), WAKING);
	assert_true(was_woken(&w[1]));
}

static void an_unlock_reserves_for_the_first_if_old(void **state)
{
	struct near_mutex m = {me() | PARKED};
	struct near__waiter w[2];

	freeze_at(500);
	play(&m, &w[0], 3 * MS / 2);
	play(&m, &w[1], 0);
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), PARKED | WAKING | RESERVED);
	assert_true(was_woken(&w[0]));
	m.word = me() | PARKED;
	near_mutex_unlock(&m);
	assert_true(was_woken(&w[1]));
}

static void the_age_that_counts_is_a_millisecond(void **state)
{
	struct near_mutex m = {me() | PARKED};
	struct near__waiter w;

	freeze_at(500);
	play(&m, &w, 0);
	freeze_at(501);
	near_mutex_unlock(&m);
	assert_true(was_woken(&w));
	m.word = me() | PARKED;
	play(&m, &w, 0);
	freeze_at(503);
	near_mutex_unlock(&m);
	assert_true(has_reservation(&m, &w));
}

static void a_reservation_keeps_off_the_next(void **state)
{
	struct near_mutex m = {me() | PARKED};
	struct near__waiter w[4];

	freeze_at(500);
	for (unsigned i = 0; i < 4; i++)
		play(&m, &w[i], 3 * MS);
	near_mutex_unlock(&m);
	assert_true(has_reservation(&m, &w[0]));
	m.word = me() | PARKED;
	near_mutex_unlock(&m);
	assert_true(was_woken(&w[1]));
	assert_false(word_of(&m) & RESERVED);
	m.word = me() | PARKED;
	near_mutex_unlock_fair(&m);
	assert_true(has_reservation(&m, &w[2]));
	freeze_at(501);
	m.word = me() | PARKED;
	near_mutex_unlock(&m);
	assert_true(has_reservation(&m, &w[3]));
}

static void a_fair_unlock_reserves_immediately(void **state)
{
	struct near_mutex m = {me() | PARKED | WAKING};
	struct near__waiter w;

	play(&m, &w, 0);
	near_mutex_unlock_fair(&m);
	assert_true(has_reservation(&m, &w));
	m.word = me() | PARKED; /* no waiter is left */
	near_mutex_unlock_fair(&m);
	assert_int_equal(word_of(&m), 0);
}

/* As does one that waits until its deadline, and any lock in the end. */
static void a_try_takes_a_reserved_mutex(void **state)
{
	struct near_mutex m = {WAKING | RESERVED};
	struct timespec now = {0, 0};

	assert_true(near_mutex_try_lock(&m));
	assert_int_equal(word_of(&m), me() | WAKING);
	m.word = WAKING | RESERVED;
	assert_int_equal(near_mutex_lock_until(&m, CLOCK_MONOTONIC, &now, NULL), 0);
	assert_int_equal(word_of(&m) & ~PARKED, me() | WAKING);
	m.word = WAKING | RESERVED;
	near_mutex_lock(&m);
	assert_int_equal(word_of(&m) & OWNER, me());
	assert_false(word_of(&m) & RESERVED);
	near_mutex_unlock(&m);
}

static void an_unlock_clears_bits_without_waiters(void **state)
{
	struct near_mutex m = {me() | PARKED | AWAITED};

	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
	m.word = me() | PARKED | AWAITED | WAKING;
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), WAKING);
}

/* A designated waker that finds the mutex taken enters the queue again. */
static void a_waiter_that_returns_is_queued_by_age(void **state)
{
	static const long ages[] = {9, 3, 6, 1, 12};
	static const unsigned order[] = {4, 0, 2, 1, 3};
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct near__waiter w[LENGTH(ages)], *at;
	struct near__bucket *b = near__lot_lock(&m);

	for (size_t i = 0; i < LENGTH(ages); i++) {
		w[i] = (struct near__waiter){.address = &m,
					     .space = NEAR__SPACE_MUTEX,
					     .since = 1000 - (uint64_t)ages[i]};
		near__lot_insert(b, &w[i]);
	}
	at = near__lot_first(b, &m, NEAR__SPACE_MUTEX);
	for (size_t i = 0; i < LENGTH(order); i++) {
		struct near__waiter *next = near__lot_next(at);

		assert_ptr_equal(at, &w[order[i]]);
		near__lot_take(b, at);
		at = next;
	}
	assert_null(at);
	near__lot_unlock(b);
}

/* ---- no kind of waiter waits for long because of another ---- */

static void play_awaiter(struct near_mutex *m, struct near__waiter *w, bool *flag)
{
	play(m, w, 0);
	w->kind = AWAITER;
	w->since = 0;
	w->condition = is_set;
	w->arg = flag;
}

/* An unlock by the test, which takes the mutex from the thread that has the reservation. */
static void unlock_again(struct near_mutex *m)
{
	m->word = me() | PARKED | AWAITED;
	near_mutex_unlock(m);
}

/* The awaiter's condition was found true, and the mutex reserved for an older waiter. */
static void pass_over(struct near_mutex *m, struct near__waiter *awaiter, bool *flag)
{
	struct near__waiter first;

	play(m, &first, 2 * MS);
	play_awaiter(m, awaiter, flag);
	unlock_again(m);
	assert_true(has_reservation(m, &first));
	assert_true(awaiter->true_since);
}

static void the_older_of_both_kinds_comes_first(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct near__waiter second, awaiter;
	bool flag = true;

	pass_over(&m, &awaiter, &flag);
	play(&m, &second, 0);
	usleep(2000); /* the second is old now; the awaiter is older */
	unlock_again(&m);
	assert_true(has_reservation(&m, &awaiter));
	unlock_again(&m);
	assert_true(has_reservation(&m, &second));
	assert_int_equal(waiters_of(&m), 0);
}

static void what_became_false_has_no_age(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct near__waiter second, third, awaiter;
	bool flag = true;

	pass_over(&m, &awaiter, &flag);
	flag = false;
	play(&m, &second, 2 * MS);
	play(&m, &third, 2 * MS);
	unlock_again(&m);
	assert_true(has_reservation(&m, &second));
	assert_false(awaiter.true_since);
	flag = true;
	near__lot_bucket(&m)->handoff_of = NULL; /* as if it were long ago */
	unlock_again(&m);
	assert_true(has_reservation(&m, &third));
	unlock_again(&m);
	assert_true(has_reservation(&m, &awaiter));
}

static void the_old_do_not_wait_for_one_on_its_way(void **state)
{
	struct near_mutex m = {me() | PARKED | WAKING};
	struct near__waiter w;
	unsigned unlocks = 0;

	play(&m, &w, 2 * MS);
	do {
		near_mutex_unlock(&m);
		unlocks++;
	} while (unlocks < 100 && !(word_of(&m) & RESERVED) && near_mutex_try_lock(&m));
	assert_true(has_reservation(&m, &w));
	assert_in_range(unlocks, 1, 32);
}

/* A thread that relied on a designated waker, and now is one itself, keeps its place. */
static void who_no_longer_relies_keeps_its_place(void **state)
{
	struct near_mutex m = {me() | PARKED | WAKING};
	struct near__waiter later;
	struct near__bucket *b;
	struct waiter w;
	bool is_first;

	start_lockers(&w, 1, &m, NULL);
	play(&m, &later, 0);
	UNTIL(!(word_of(&m) & WAKING));
	b = near__lot_lock(&m);
	is_first = near__lot_first(b, &m, NEAR__SPACE_MUTEX) != &later;
	near__lot_unlock(b);
	near_mutex_unlock(&m);
	expect(&w, 0);
	assert_true(is_first);
	assert_true(was_woken(&later));
}

/* ---- waits ---- */

static void every_waiter_gets_it(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[12];
	unsigned order = 0;

	for (unsigned round = 0; round < 10; round++) {
		near_mutex_lock(&m);
		start_lockers(w, 12, &m, &order);
		assert_int_equal(order, round * 12);
		if (round % 2)
			near_mutex_unlock(&m);
		else
			near_mutex_unlock_fair(&m);
		for (unsigned i = 0; i < 12; i++)
			expect(&w[i], 0);
		assert_int_equal(order, (round + 1) * 12);
		assert_int_equal(word_of(&m), 0);
	}
}

static bool old_waiters_get_it_in_order(void)
{
	struct timespec far = wait_in_ms(CLOCK_REALTIME, 1000000);
	struct near_mutex m = NEAR_MUTEX_INIT;
	unsigned order = 0;
	struct waiter w[6], like = {.kind = &wait_mutex, .on = &m, .order = &order};
	bool in_order = true;

	like.clock = CLOCK_REALTIME;
	like.deadline = &far;
	near_mutex_lock(&m);
	start_waiters(w, 6, like);
	usleep(3000);
	near_mutex_unlock(&m);
	for (unsigned i = 0; i < 6; i++) {
		expect(&w[i], 0);
		in_order &= w[i].turn == i + 1;
	}
	return in_order;
}

/* All are old: the mutex is reserved for one after the other. Unless one is in the queue and not
 * yet asleep: then the next one is woken, too. */
static void old_waiters_get_it_in_their_order(void **state)
{
	bool passed = false;

	for (unsigned i = 0; i < 100 && !passed; i++)
		passed = old_waiters_get_it_in_order();
	assert_true(passed);
}

static void a_token_ends_waits(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[3];
	unsigned order = 0;

	near_mutex_lock(&m);
	for (unsigned i = 0; i < 3; i++)
		start_waiters(&w[i], 1,
			      (struct waiter){.kind = &wait_mutex,
					      .on = &m,
					      .cancel = i == 1 ? NULL : &token,
					      .order = &order});
	near_cancel_set(&token);
	expect(&w[0], -ECANCELED);
	expect(&w[2], -ECANCELED);
	assert_int_equal(waiters_of(&m), 1);
	near_mutex_unlock(&m);
	expect(&w[1], 0);
	assert_int_equal(w[1].turn, 1);
	assert_int_equal(word_of(&m), 0);
}

static unsigned checks;

static bool count_check(void *flag)
{
	checks++;
	return is_set(flag);
}

static void await_checks_its_condition_first(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	bool yes = true;

	near_mutex_lock(&m);
	checks = 0;
	near_mutex_await(&m, count_check, &yes);
	assert_int_equal(checks, 1);
	assert_int_equal(word_of(&m), me());
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
}

/* ---- an awaiter among threads that lock ---- */

#define WORKERS 8

static struct {
	struct near_mutex m;
	bool ready, done; /* guarded by the mutex */
	unsigned sections;
} shop;

/* Each waits for more than a millisecond, behind the others. */
static void *work(void *unused)
{
	bool done;

	do {
		near_mutex_lock(&shop.m);
		shop.sections += shop.ready;
		usleep(300);
		done = shop.done;
		near_mutex_unlock(&shop.m);
	} while (!done);
	return unused;
}

static void *await_it(void *unused)
{
	near_mutex_lock(&shop.m);
	near_mutex_await(&shop.m, is_set, &shop.ready);
	shop.done = true;
	near_mutex_unlock(&shop.m);
	return unused;
}

/* How many sections there are after the condition became true. */
static unsigned sections_beside_await(void)
{
	pthread_t awaiter, workers[WORKERS];

	memset(&shop, 0, sizeof(shop));
	awaiter = unit_start(await_it, NULL);
	wait_for_waits(&shop.m, NEAR__SPACE_MUTEX, 1);
	for (unsigned i = 0; i < WORKERS; i++)
		workers[i] = unit_start(work, NULL);
	usleep(20000);
	near_mutex_lock(&shop.m);
	shop.ready = true;
	near_mutex_unlock(&shop.m);
	unit_join(awaiter);
	for (unsigned i = 0; i < WORKERS; i++)
		unit_join(workers[i]);
	return shop.sections;
}

/* Threads that waited before it may come first, and none twice: once each before it, once each
 * after it; and threads that arrive while none is old. The mutex is reserved for some time only: on
 * a busy machine a thread can come too late for it. */
static void await_is_bounded_beside_old_lockers(void **state)
{
	for (unsigned many = 0; many < 2; many++) {
		unsigned sections;

		(many ? many_cpus : few_cpus)(state);
		sections = sections_beside_await();
		if (unit_emulated()) /* which runs threads in turns of its own */
			continue;
		for (int i = 0; sections > 10 * WORKERS && i < 10; i++)
			sections = sections_beside_await();
		assert_in_range(sections, 0, 10 * WORKERS);
	}
}

static int restore(void **state)
{
	freeze_at(0);
	return few_cpus(state);
}

int main(void)
{
	return UNIT_GROUP(
		few_cpus, restore, NULL, zero_is_a_free_mutex, threads_are_different_owners,
		an_unlock_wakes_the_first_if_young, an_unlock_reserves_for_the_first_if_old,
		the_age_that_counts_is_a_millisecond, a_reservation_keeps_off_the_next,
		a_fair_unlock_reserves_immediately, a_try_takes_a_reserved_mutex,
		an_unlock_clears_bits_without_waiters, a_waiter_that_returns_is_queued_by_age,
		the_older_of_both_kinds_comes_first, what_became_false_has_no_age,
		the_old_do_not_wait_for_one_on_its_way, who_no_longer_relies_keeps_its_place,
		every_waiter_gets_it, old_waiters_get_it_in_their_order, a_token_ends_waits,
		await_checks_its_condition_first, await_is_bounded_beside_old_lockers);
}
