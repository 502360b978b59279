/* SPDX-License-Identifier: MIT */
/* How waits of near_park end: deadlines, tokens, signals, forks. What deadlines do to all waits is
 * tested in timeout_test.c. */
#include "parked.h"
#include "signals.h"

/* ---- the ends of waits ---- */

static void a_wait_that_ends_calls_back(void **state)
{
	static const struct timespec past[] = {{0, 0}, {1, 5}, {-1, 0}, {TIME_MIN, 999999999}},
				     wrong = {1, -1};
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 20);
	struct calls c = {.answer = true};
	struct near_park p = {.clock = CLOCK_MONOTONIC,
			      .deadline = &wrong,
			      .validate = validate,
			      .left = left,
			      .arg = &c};

	errno = UNIT_ERRNO;
	assert_int_equal(near_park(place, &p), -EINVAL);
	assert_int_equal(c.validated, 0);
	for (size_t n = 0; n <= LENGTH(past); n++) {
		p.deadline = n ? &past[n - 1] : &soon;
		assert_int_equal(near_park(place, &p), -ETIMEDOUT);
		assert_int_equal(c.validated, n + 1);
		assert_int_equal(c.left, n + 1);
	}
	assert_int_equal(errno, UNIT_ERRNO);
	assert_ptr_equal(c.left_on, place);
	assert_false(c.others);
	assert_int_equal(parked(place), 0);
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
	leaves.thread = unit_start(sleep_there, &leaves);
	UNTIL(parked(place) || wait_is_past(CLOCK_MONOTONIC, later));
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

	while (near__lot_bucket(to) == near__lot_bucket(place))
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

static void signals_end_an_interruptible_wait(void **state)
{
	struct sleeper s[2] = {{.address = place, .park = {.clock = NEAR_INTERRUPTIBLE}},
			       {.address = place}};

	if (UNIT_THREAD_SANITIZER)
		skip();
	catch_signals(0);
	start_sleepers(s, 2);
	/* It may not be asleep yet when the first one comes. */
	while (parked(place) == 2) {
		pthread_kill(s[0].thread, SIGUSR1);
		usleep(1000);
	}
	expect(&s[0], -EINTR, 0);
	signal_often(s[1].thread, 5);
	assert_int_equal(parked(place), 1);
	assert_int_equal(near_unpark(place, 1, 6), 1);
	expect(&s[1], 0, 6);
}

/* ---- fork ---- */

static pthread_barrier_t barrier;

static void *hold_bucket(void *unused)
{
	struct near__bucket *b = near__lot_lock(place);

	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	near__lot_unlock(b);
	return unused;
}

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

static void a_child_has_an_empty_lot(void **state)
{
	struct sleeper s = {.address = place};
	pthread_t holder;
	pid_t child;

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it lets no child have threads */
	start_sleepers(&s, 1);
	pthread_barrier_init(&barrier, NULL, 2);
	holder = unit_start(hold_bucket, NULL);
	pthread_barrier_wait(&barrier);
	child = unit_fork(use_lot_in_child, NULL);
	pthread_barrier_wait(&barrier);
	assert_true(child > 0);
	assert_int_equal(unit_wait(child, NULL), 0);
	unit_join(holder);
	assert_int_equal(near_unpark(place, 1, 2), 1);
	expect(&s, 0, 2);
}

UNIT_MAIN(a_wait_that_ends_calls_back, a_timeout_reports_its_address,
	  a_waiter_that_times_out_is_requeued, a_token_ends_all_waits,
	  signals_end_an_interruptible_wait, a_child_has_an_empty_lot)
