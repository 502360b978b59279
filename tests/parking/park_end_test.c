/* SPDX-License-Identifier: MIT */
/* How waits of near_park end: deadlines, tokens, signals, forks; then a stress test in which every
 * wake-up is counted on both sides. */
#include "parked.h"

/* ---- the ends of waits ---- */

static void deadlines_end_waits(void **state)
{
	static const struct timespec past[] = {{0, 0}, {1, 5}, {-1, 0}, {INT64_MIN, 999999999}};

	for (size_t i = 0; i < LENGTH(wait_clocks); i++) {
		struct timespec soon = wait_in_ms(wait_clocks[i], 20);
		struct calls c = {.answer = true};
		struct near_park p = {.clock = wait_clocks[i],
				      .deadline = &soon,
				      .validate = validate,
				      .left = left,
				      .arg = &c};

		errno = UNIT_ERRNO;
		assert_int_equal(near_park(place, &p), -ETIMEDOUT);
		assert_true(wait_is_past(wait_clocks[i], soon));
		for (size_t n = 0; n < LENGTH(past); n++) {
			p.deadline = &past[n];
			assert_int_equal(near_park(place, &p), -ETIMEDOUT);
			assert_int_equal(c.validated, n + 2);
			assert_int_equal(c.left, n + 2);
		}
		assert_int_equal(errno, UNIT_ERRNO);
		assert_ptr_equal(c.left_on, place);
		assert_false(c.others);
		assert_int_equal(parked(place), 0);
	}
}

static void a_wrong_deadline_is_an_error(void **state)
{
	static const struct timespec wrong[] = {{1, -1}, {1, 1000000000}, {1, INT32_MIN}};
	static const clockid_t unknown[] = {-1, 4711, CLOCK_PROCESS_CPUTIME_ID,
					    CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW};
	struct calls c = {.answer = true};
	struct near_park p = {.validate = validate, .arg = &c};

	for (size_t i = 0; i < LENGTH(wrong); i++) {
		p.clock = CLOCK_MONOTONIC;
		p.deadline = &wrong[i];
		assert_int_equal(near_park(place, &p), -EINVAL);
	}
	for (size_t i = 0; i < LENGTH(unknown); i++) {
		struct timespec zero = {0, 0};

		p.clock = unknown[i];
		p.deadline = &zero;
		assert_int_equal(near_park(place, &p), -EINVAL);
	}
	assert_int_equal(c.validated, 0);
}

static void a_huge_deadline_is_far_away(void **state)
{
	static const struct timespec huge[] = {
		{INT64_C(0x7000000000000000), 0}, {INT64_MAX, 999999999}, {INT64_C(9223372036), 5}};

	for (size_t i = 0; i < LENGTH(wait_clocks); i++)
		for (size_t n = 0; n < LENGTH(huge); n++) {
			struct sleeper s = {.address = place,
					    .park = {.clock = wait_clocks[i],
						     .deadline = &huge[n]}};

			start_sleepers(&s, 1);
			usleep(2000);
			assert_int_equal(near_unpark(place, 1, 9), 1);
			expect(&s, 0, 9);
		}
}

static void a_timeout_reports_its_address(void **state)
{
	struct calls c = {0};
	struct timespec later = wait_in_ms(CLOCK_MONOTONIC, 100);
	struct sleeper stays = {.address = place + 8};
	struct sleeper leaves = {
		.address = place,
		.park = {.deadline = &later, .clock = CLOCK_MONOTONIC, .left = left, .arg = &c}};
	struct near_unpark u = {.requeue = 1, .to = place + 8};
	struct near_unparked found;

	start_sleepers(&stays, 1);
	start_sleepers(&leaves, 1);
	assert_int_equal(near_unpark_with(place, &u, &found), 0);
	if (found.requeued == 0)
		print_message("the machine was too busy to move a waiter in time\n");
	unit_join(leaves.thread);
	assert_int_equal(leaves.result, -ETIMEDOUT);
	assert_int_equal(c.left, 1);
	assert_ptr_equal(c.left_on, found.requeued ? place + 8 : place);
	assert_true(c.others == (found.requeued == 1));
	assert_int_equal(near_unpark(place + 8, NEAR_UNPARK_ALL, 1), 1);
	expect(&stays, 0, 1);
}

/* It reads its address, waits for that bucket's lock, and finds itself moved when it has it. */
static void a_waiter_that_times_out_is_requeued(void **state)
{
	const char *to = place + 1;
	struct timespec soon;
	struct near__bucket *locked[2];
	struct near__waiter *w;
	struct sleeper s = {.address = place, .park = {.deadline = &soon}};

	while (bucket_of(to) == bucket_of(place))
		to++;
	s.park.clock = CLOCK_MONOTONIC;
	do {
		soon = wait_in_ms(CLOCK_MONOTONIC, 50);
		s.thread = unit_start(sleep_there, &s);
		do {
			near__lot_lock_both(place, to, locked);
			w = near__lot_first(locked[0], place, NEAR__SPACE_PARK);
			if (!w)
				near__lot_unlock_both(locked);
		} while (!w && !wait_is_past(CLOCK_MONOTONIC, soon));
		if (!w)
			unit_join(s.thread); /* too late on a busy machine */
	} while (!w);
	while (!wait_is_past(CLOCK_MONOTONIC, soon))
		usleep(1000);
	usleep(10000);
	near__lot_move(locked[0], locked[1], w, to, NEAR__SPACE_PARK);
	near__lot_unlock_both(locked);
	unit_join(s.thread);
	assert_int_equal(s.result, -ETIMEDOUT);
	assert_int_equal(parked(to), 0);
	assert_int_equal(parked(place), 0);
}

static void a_token_ends_all_waits(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct sleeper s[40];
	struct near_park late = {.cancel = &token};

	assert_false(near_cancel_is_set(&token));
	for (unsigned i = 0; i < 40; i++)
		s[i] = (struct sleeper){.address = place, .park = {.cancel = &token}};
	start_sleepers(s, 40);
	assert_int_equal(near_unpark(place, 1, 3), 1);
	expect(&s[0], 0, 3);
	errno = UNIT_ERRNO;
	near_cancel_set(&token);
	assert_int_equal(errno, UNIT_ERRNO);
	for (unsigned i = 1; i < 40; i++)
		expect(&s[i], -ECANCELED, 0);
	assert_true(near_cancel_is_set(&token));
	assert_int_equal(near_park(place, &late), -ECANCELED);
	near_cancel_set(&token);
	near_cancel_reset(&token);
	assert_false(near_cancel_is_set(&token));
	assert_int_equal(parked(place), 0);
}

static int signals;

static void note_signal(int signal)
{
	__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
}

static void signals_end_an_interruptible_wait(void **state)
{
	struct sigaction action = {.sa_handler = note_signal};
	struct sleeper s[2] = {{.address = place, .park = {.interruptible = true}},
			       {.address = place}};

	if (UNIT_THREAD_SANITIZER)
		skip();
	sigaction(SIGUSR1, &action, NULL);
	start_sleepers(s, 2);
	/* It may not be asleep yet when the first one comes. */
	while (parked(place) == 2) {
		pthread_kill(s[0].thread, SIGUSR1);
		usleep(1000);
	}
	expect(&s[0], -EINTR, 0);
	for (int before = signals; signals < before + 5; usleep(1000))
		pthread_kill(s[1].thread, SIGUSR1);
	assert_int_equal(parked(place), 1);
	assert_int_equal(near_unpark(place, 1, 6), 1);
	expect(&s[1], 0, 6);
}

/* ---- fork ---- */

static void use_lot_in_child(void *unused)
{
	struct timespec past = {0, 0};
	struct near_park p = {.clock = CLOCK_MONOTONIC, .deadline = &past};
	struct sleeper s = {.address = place};

	CHECK(parked(place) == 0);
	CHECK(near_park(place, &p) == -ETIMEDOUT);
	start_sleepers(&s, 1);
	CHECK(near_unpark(place, 9, 8) == 1);
	unit_join(s.thread);
	CHECK(s.result == 0 && s.park.token == 8);
}

static struct {
	pthread_barrier_t barrier;
} holding;

static void *hold_bucket(void *unused)
{
	struct near__bucket *b = near__lot_lock(place);

	pthread_barrier_wait(&holding.barrier);
	pthread_barrier_wait(&holding.barrier);
	near__lot_unlock(b);
	return unused;
}

static void a_child_has_an_empty_lot(void **state)
{
	struct sleeper s = {.address = place};
	pthread_t holder;
	pid_t child;

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it lets no child have threads */
	start_sleepers(&s, 1);
	pthread_barrier_init(&holding.barrier, NULL, 2);
	holder = unit_start(hold_bucket, NULL);
	pthread_barrier_wait(&holding.barrier);
	child = unit_fork(use_lot_in_child, NULL);
	pthread_barrier_wait(&holding.barrier);
	assert_true(child > 0);
	assert_int_equal(unit_wait(child, NULL), 0);
	unit_join(holder);
	assert_int_equal(near_unpark(place, 1, 2), 1);
	expect(&s, 0, 2);
}

/* ---- stress ---- */

#define PLACES 3

static struct {
	struct near_cancel token;
	unsigned stop, parks, unparks;
	unsigned running;
} stress;

static void *park_often(void *arg)
{
	uint64_t random = (uintptr_t)arg + 1;
	unsigned woken = 0;

	while (!__atomic_load_n(&stress.stop, __ATOMIC_RELAXED)) {
		uint32_t r = unit_random(&random);
		struct timespec soon = wait_in_ns(r % 65536);
		struct near_park p = {.clock = CLOCK_MONOTONIC};
		int result;

		p.deadline = r & 1 << 20 ? NULL : &soon;
		p.cancel = r & 1 << 21 ? &stress.token : NULL;
		result = near_park(place + r % PLACES, &p);
		CHECK(result == 0 || result == -ETIMEDOUT || result == -ECANCELED);
		woken += result == 0;
	}
	__atomic_fetch_add(&stress.parks, woken, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&stress.running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *unpark_often(void *arg)
{
	uint64_t random = (uintptr_t)arg + 100;
	unsigned woken = 0;

	while (__atomic_load_n(&stress.running, __ATOMIC_ACQUIRE)) {
		uint32_t r = unit_random(&random);
		struct near_unpark u = {.wake = r >> 8 & 1,
					.requeue = r >> 9 & 3,
					.to = place + (r >> 11) % PLACES};
		struct near_unparked found;

		near_unpark_with(place + r % PLACES, &u, &found);
		woken += (unsigned)found.woken;
		if (r % 64 == 0)
			near_cancel_set(&stress.token);
	}
	__atomic_fetch_add(&stress.unparks, woken, __ATOMIC_RELAXED);
	return NULL;
}

/* A thread returns 0 if and only if it was woken: no wake-up is lost to a deadline. A thread
 * without a deadline is woken in the end, or the test does not end. */
static void stress_loses_no_wake_up(void **state)
{
	const unsigned ms = unit_scale(1000);
	pthread_t asleep[6], awake[2];

	stress.running = LENGTH(asleep);
	for (uintptr_t i = 0; i < LENGTH(asleep); i++)
		asleep[i] = unit_start(park_often, (void *)i);
	for (uintptr_t i = 0; i < LENGTH(awake); i++)
		awake[i] = unit_start(unpark_often, (void *)i);
	usleep(ms * 1000);
	__atomic_store_n(&stress.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < LENGTH(asleep); i++)
		unit_join(asleep[i]);
	for (unsigned i = 0; i < LENGTH(awake); i++)
		unit_join(awake[i]);
	assert_true(stress.parks > 0);
	assert_int_equal(stress.parks, stress.unparks);
	for (unsigned i = 0; i < PLACES; i++)
		assert_int_equal(parked(place + i), 0);
}

UNIT_MAIN(deadlines_end_waits, a_wrong_deadline_is_an_error, a_huge_deadline_is_far_away,
	  a_timeout_reports_its_address, a_waiter_that_times_out_is_requeued,
	  a_token_ends_all_waits, signals_end_an_interruptible_wait, a_child_has_an_empty_lot,
	  stress_loses_no_wake_up)
