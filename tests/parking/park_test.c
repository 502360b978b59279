/* SPDX-License-Identifier: MIT */
/* near_park and near_unpark: each promise of park.h by itself. */
#include "parked.h"

static void unparks_the_first_n(void **state)
{
	struct sleeper s[5];

	assert_int_equal(near_unpark(place, 1, 7), 0);
	start_alike(s, 5, place, NULL);
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

static void neighbours_in_a_bucket_are_independent(void **state)
{
	const char *other = place + 1;
	struct sleeper s = {.address = place};

	while (near__lot_bucket(other) != near__lot_bucket(place))
		other++;
	start_sleepers(&s, 1);
	assert_int_equal(near_unpark(other, NEAR_UNPARK_ALL, 1), 0);
	assert_int_equal(parked(place), 1);
	assert_int_equal(near_unpark(place, NEAR_UNPARK_ALL, 2), 1);
	expect(&s, 0, 2);
}

/* ---- callbacks ---- */

static void before_sleep(void *arg)
{
	struct calls *c = arg;

	c->slept++;
	/* Without the lock, and found already. */
	CHECK(near_unpark(place, 1, 5) == 1);
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
	for (unsigned i = 0; i < 3; i++) /* no thread is awake yet */
		CHECK(!(__atomic_load_n(&d->s[i].turn, __ATOMIC_RELAXED)));
	return 99;
}

static bool validate_decision(void *arg)
{
	struct decision *d = arg;

	d->validated++;
	return d->answer;
}

static enum near_park_choice choose_odd(void *unused, uintptr_t mark)
{
	if (mark == 5)
		return NEAR_PARK_STOP;
	return mark % 2 ? NEAR_PARK_CHOOSE : NEAR_PARK_SKIP;
}

static void unpark_calls_back(void **state)
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

	start_alike(s, 6, place, &order);
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

static void requeue_moves_to_the_end(void **state)
{
	unsigned order = 0;
	char *to = place + 32;
	struct sleeper s[5];
	struct near_unpark u = {.wake = 1, .requeue = 2, .to = to, .token = 1};
	struct near_unparked found;

	start_alike(s, 1, to, &order);
	start_alike(s + 1, 4, place, &order);
	assert_int_equal(near_unpark_with(place, &u, &found), 0);
	assert_int_equal(found.woken, 1);
	assert_int_equal(found.requeued, 2);
	assert_true(found.more);
	expect(&s[1], 0, 1);
	assert_int_equal(parked(place), 1);
	assert_int_equal(parked(to), 3);
	for (unsigned i = 0; i < 3; i++) { /* the one that was there, then those that came */
		static const unsigned expected[] = {0, 2, 3};

		assert_int_equal(near_unpark(to, 1, 20 + i), 1);
		expect(&s[expected[i]], 0, 20 + i);
	}
	assert_int_equal(near_unpark(place, 1, 30), 1);
	expect(&s[4], 0, 30);
}

static void requeue_to_itself_moves_no_waiter(void **state)
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

UNIT_MAIN(unparks_the_first_n, neighbours_in_a_bucket_are_independent, validate_decides,
	  unpark_calls_back, requeue_moves_to_the_end, requeue_to_itself_moves_no_waiter)
