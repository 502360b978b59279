/* SPDX-License-Identifier: MIT */
/* near_park and near_unpark, near_cancel: each promise of park.h by itself, then a storm in which
 * every wake-up is counted on both sides. */
#include "unit.h"

#include <nearcpu/park.h>

#include "parking/lot.h"

static char place[64]; /* addresses to park on */

/* ---- who is parked ---- */

static enum near_choice count_one(void *count, uintptr_t mark)
{
	++*(unsigned *)count;
	return NEAR_SKIP;
}

static unsigned parked(const void *address)
{
	unsigned count = 0;
	struct near_unpark u = {.wake = 1, .choose = count_one, .arg = &count};

	CHECK(near_unpark_with(address, &u, NULL) == 0);
	return count;
}

static void wait_for_parked(const void *address, unsigned n)
{
	while (parked(address) != n)
		usleep(100);
}

struct sleeper {
	const void *address;
	struct near_park park;
	int result;
	unsigned *order, turn; /* taken from *order when awake */
	pthread_t thread;
};

static void *sleep_there(void *arg)
{
	struct sleeper *s = arg;

	errno = UNIT_ERRNO;
	s->result = near_park(s->address, &s->park);
	CHECK(errno == UNIT_ERRNO);
	if (s->order)
		s->turn = __atomic_add_fetch(s->order, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Starts n sleepers, one behind the other. */
static void start_sleepers(struct sleeper *s, unsigned n)
{
	unsigned before = parked(s->address);

	for (unsigned i = 0; i < n; i++) {
		s[i].thread = unit_start(sleep_there, &s[i]);
		wait_for_parked(s[i].address, before + i + 1);
	}
}

static void expect(struct sleeper *s, int result, uintptr_t token)
{
	unit_join(s->thread);
	assert_int_equal(s->result, result);
	assert_int_equal(s->park.token, token);
}

static void unparks_the_first_n(void **state)
{
	struct sleeper s[5] = {{.address = place},
			       {.address = place},
			       {.address = place},
			       {.address = place},
			       {.address = place}};

	assert_int_equal(near_unpark(place, 1, 7), 0);
	start_sleepers(s, 5);
	assert_int_equal(near_unpark(place + 1, 1, 7), 0);
	assert_int_equal(near_unpark(place, 0, 7), 0);
	assert_int_equal(near_unpark(place, 1, 11), 1);
	expect(&s[0], 0, 11);
	assert_int_equal(near_unpark(place, 2, 12), 2);
	expect(&s[1], 0, 12);
	expect(&s[2], 0, 12);
	assert_int_equal(parked(place), 2);
	assert_int_equal(near_unpark(place, NEAR_UNPARK_ALL, 13), 2);
	expect(&s[3], 0, 13);
	expect(&s[4], 0, 13);
}

static struct near__bucket *bucket_of(const void *address)
{
	struct near__bucket *b = near__lot_lock(address);

	near__lot_unlock(b);
	return b;
}

static void neighbours_in_a_bucket_do_not_meet(void **state)
{
	const char *other = place + 1;
	struct sleeper s = {.address = place};

	while (bucket_of(other) != bucket_of(place))
		other++;
	start_sleepers(&s, 1);
	assert_int_equal(near_unpark(other, NEAR_UNPARK_ALL, 1), 0);
	assert_int_equal(parked(place), 1);
	assert_int_equal(near_unpark(place, NEAR_UNPARK_ALL, 2), 1);
	expect(&s, 0, 2);
}

/* ---- callbacks ---- */

struct calls {
	bool answer;
	unsigned validated, slept, left;
	const void *left_on;
	bool others;
};

static bool validate(void *arg)
{
	struct calls *c = arg;

	c->validated++;
	return c->answer;
}

static void before_sleep(void *arg)
{
	struct calls *c = arg;

	c->slept++;
	/* Without the lock, and found already. */
	CHECK(near_unpark(place, 1, 5) == 1);
}

static void left(void *arg, const void *address, bool others)
{
	struct calls *c = arg;

	c->left++;
	c->left_on = address;
	c->others = others;
}

static void validate_decides(void **state)
{
	struct calls c = {0};
	struct near_park p = {
		.validate = validate, .before_sleep = before_sleep, .left = left, .arg = &c};

	assert_int_equal(near_park(place, &p), -EAGAIN);
	assert_int_equal(c.validated, 1);
	assert_int_equal(c.slept, 0);
	assert_int_equal(c.left, 0);
	assert_int_equal(parked(place), 0);
	c.answer = true;
	assert_int_equal(near_park(place, &p), 0);
	assert_int_equal(p.token, 5);
	assert_int_equal(c.slept, 1);
	assert_int_equal(c.left, 0);
}

struct decision {
	struct near_unparked found;
	unsigned calls, validated;
	struct sleeper *s;
	bool answer;
};

static uintptr_t decide(void *arg, const struct near_unparked *found)
{
	struct decision *d = arg;

	d->calls++;
	d->found = *found;
	for (unsigned i = 0; i < 3; i++) /* nobody is awake yet */
		CHECK(!(__atomic_load_n(&d->s[i].turn, __ATOMIC_RELAXED)));
	return 99;
}

static bool validate_decision(void *arg)
{
	struct decision *d = arg;

	d->validated++;
	return d->answer;
}

static enum near_choice choose_odd(void *unused, uintptr_t mark)
{
	if (mark == 5)
		return NEAR_STOP;
	return mark % 2 ? NEAR_CHOOSE : NEAR_SKIP;
}

static void unpark_asks_and_tells(void **state)
{
	unsigned order = 0;
	struct sleeper s[6];
	struct decision d = {.s = s};
	struct near_unpark u = {.wake = 9,
				.choose = choose_odd,
				.decide = decide,
				.validate = validate_decision,
				.arg = &d};
	struct near_unparked found;

	for (unsigned i = 0; i < 6; i++)
		s[i] = (struct sleeper){.address = place, .order = &order, .park = {.mark = i + 1}};
	start_sleepers(s, 6);
	assert_int_equal(near_unpark_with(place, &u, &found), -EAGAIN);
	assert_int_equal(d.calls, 0);
	assert_int_equal(found.woken, 0);
	d.answer = true;
	assert_int_equal(near_unpark_with(place, &u, &found), 0); /* 1, 3 of 1 to 4 */
	assert_int_equal(d.calls, 1);
	assert_int_equal(d.validated, 2);
	assert_int_equal(d.found.woken, 2);
	assert_int_equal(found.woken, 2);
	assert_int_equal(found.requeued, 0);
	assert_true(found.more);
	expect(&s[0], 0, 99);
	expect(&s[2], 0, 99);
	assert_int_equal(parked(place), 4);
	u = (struct near_unpark){.wake = 4, .token = 3};
	assert_int_equal(near_unpark_with(place, &u, &found), 0);
	assert_int_equal(found.woken, 4);
	assert_false(found.more);
	expect(&s[1], 0, 3);
	expect(&s[3], 0, 3);
	expect(&s[4], 0, 3);
	expect(&s[5], 0, 3);
}

static void requeue_moves_behind(void **state)
{
	unsigned order = 0;
	char *to = place + 32;
	struct sleeper s[5];
	struct near_unpark u = {.wake = 1, .requeue = 2, .to = to, .token = 1};
	struct near_unparked found;

	for (unsigned i = 0; i < 5; i++)
		s[i] = (struct sleeper){.address = i ? place : to, .order = &order};
	start_sleepers(s, 1);
	start_sleepers(s + 1, 4);
	assert_int_equal(near_unpark_with(place, &u, &found), 0);
	assert_int_equal(found.woken, 1);
	assert_int_equal(found.requeued, 2);
	assert_true(found.more);
	expect(&s[1], 0, 1);
	assert_int_equal(parked(place), 1);
	assert_int_equal(parked(to), 3);
	for (unsigned i = 0; i < 3; i++) { /* the one that was there, then those that came */
		static const unsigned who[] = {0, 2, 3};

		assert_int_equal(near_unpark(to, 1, 20 + i), 1);
		expect(&s[who[i]], 0, 20 + i);
	}
	assert_int_equal(near_unpark(place, 1, 30), 1);
	expect(&s[4], 0, 30);
}

static void requeue_to_itself_moves_nobody(void **state)
{
	struct sleeper s = {.address = place};
	struct near_unpark u = {.requeue = NEAR_UNPARK_ALL, .to = place};
	struct near_unparked found;

	start_sleepers(&s, 1);
	assert_int_equal(near_unpark_with(place, &u, &found), 0);
	assert_int_equal(found.requeued, 0);
	assert_true(found.more);
	assert_int_equal(near_unpark(place, 1, 4), 1);
	expect(&s, 0, 4);
}

/* ---- the ends of waits ---- */

static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};

static struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static bool is_past(clockid_t clock, struct timespec t)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec);
}

static void deadlines_end_waits(void **state)
{
	static const struct timespec past[] = {{0, 0}, {1, 5}, {-1, 0}, {INT64_MIN, 999999999}};

	for (size_t i = 0; i < LENGTH(clocks); i++) {
		struct timespec soon = in_ms(clocks[i], 20);
		struct calls c = {.answer = true};
		struct near_park p = {.clock = clocks[i],
				      .deadline = &soon,
				      .validate = validate,
				      .left = left,
				      .arg = &c};

		errno = UNIT_ERRNO;
		assert_int_equal(near_park(place, &p), -ETIMEDOUT);
		assert_true(is_past(clocks[i], soon));
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

	for (size_t i = 0; i < LENGTH(clocks); i++)
		for (size_t n = 0; n < LENGTH(huge); n++) {
			struct sleeper s = {.address = place,
					    .park = {.clock = clocks[i], .deadline = &huge[n]}};

			start_sleepers(&s, 1);
			usleep(2000);
			assert_int_equal(near_unpark(place, 1, 9), 1);
			expect(&s, 0, 9);
		}
}

static void who_leaves_is_told_where_it_was(void **state)
{
	struct calls c = {0};
	struct timespec later = in_ms(CLOCK_MONOTONIC, 100);
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
static void who_leaves_is_moved_meanwhile(void **state)
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
		soon = in_ms(CLOCK_MONOTONIC, 50);
		s.thread = unit_start(sleep_there, &s);
		do {
			near__lot_lock_both(place, to, locked);
			w = near__lot_first(locked[0], place, NEAR__SPACE_PARK);
			if (!w)
				near__lot_unlock_both(locked);
		} while (!w && !is_past(CLOCK_MONOTONIC, soon));
		if (!w)
			unit_join(s.thread); /* too late on a busy machine */
	} while (!w);
	while (!is_past(CLOCK_MONOTONIC, soon))
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

static void signals_end_a_wait_that_asked_for_it(void **state)
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

/* ---- storm ---- */

#define PLACES 3

static struct {
	struct near_cancel token;
	unsigned stop, parks, unparks;
	unsigned running;
} storm;

static void *rage_asleep(void *arg)
{
	uint64_t random = (uintptr_t)arg + 1;
	unsigned woken = 0;

	while (!__atomic_load_n(&storm.stop, __ATOMIC_RELAXED)) {
		struct timespec soon = in_ms(CLOCK_MONOTONIC, 0);
		struct near_park p = {.clock = CLOCK_MONOTONIC};
		uint32_t r = unit_random(&random);
		int result;

		soon.tv_nsec += r % 65536;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
		p.deadline = r & 1 << 20 ? NULL : &soon;
		p.cancel = r & 1 << 21 ? &storm.token : NULL;
		result = near_park(place + r % PLACES, &p);
		CHECK(result == 0 || result == -ETIMEDOUT || result == -ECANCELED);
		woken += result == 0;
	}
	__atomic_fetch_add(&storm.parks, woken, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&storm.running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *rage_awake(void *arg)
{
	uint64_t random = (uintptr_t)arg + 100;
	unsigned woken = 0;

	while (__atomic_load_n(&storm.running, __ATOMIC_ACQUIRE)) {
		uint32_t r = unit_random(&random);
		struct near_unpark u = {.wake = r >> 8 & 1,
					.requeue = r >> 9 & 3,
					.to = place + (r >> 11) % PLACES};
		struct near_unparked found;

		near_unpark_with(place + r % PLACES, &u, &found);
		woken += (unsigned)found.woken;
		if (r % 64 == 0)
			near_cancel_set(&storm.token);
	}
	__atomic_fetch_add(&storm.unparks, woken, __ATOMIC_RELAXED);
	return NULL;
}

/* Whoever was woken returns 0, and nobody else does: no wake-up is lost to a deadline. Who has no
 * deadline is woken in the end, or the test does not end. */
static void storm_loses_no_wake_up(void **state)
{
	const unsigned ms = unit_scale(1000);
	pthread_t asleep[6], awake[2];

	storm.running = LENGTH(asleep);
	for (uintptr_t i = 0; i < LENGTH(asleep); i++)
		asleep[i] = unit_start(rage_asleep, (void *)i);
	for (uintptr_t i = 0; i < LENGTH(awake); i++)
		awake[i] = unit_start(rage_awake, (void *)i);
	usleep(ms * 1000);
	__atomic_store_n(&storm.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < LENGTH(asleep); i++)
		unit_join(asleep[i]);
	for (unsigned i = 0; i < LENGTH(awake); i++)
		unit_join(awake[i]);
	assert_true(storm.parks > 0);
	assert_int_equal(storm.parks, storm.unparks);
	for (unsigned i = 0; i < PLACES; i++)
		assert_int_equal(parked(place + i), 0);
}

UNIT_MAIN(unparks_the_first_n, neighbours_in_a_bucket_do_not_meet, validate_decides,
	  unpark_asks_and_tells, requeue_moves_behind, requeue_to_itself_moves_nobody,
	  deadlines_end_waits, a_wrong_deadline_is_an_error, a_huge_deadline_is_far_away,
	  who_leaves_is_told_where_it_was, who_leaves_is_moved_meanwhile, a_token_ends_all_waits,
	  signals_end_a_wait_that_asked_for_it, a_child_has_an_empty_lot, storm_loses_no_wake_up)
