/* SPDX-License-Identifier: MIT */
/* Limits of waits: each call that has one, by each deadline that is an invalid timespec, past or
 * absurd, and by each clock there is and some that are none. */
#include "waiters.h"

#include <limits.h>

/* ---- what is waited for, in vain ---- */

static struct near_mutex held, guard;
static struct near_cond silent;
static struct near_sem empty;
static struct near_once busy;
static struct near_barrier two = NEAR_BARRIER_INIT(2);
static struct near_rwlock written, read_by_another;
static bool is_busy, is_over; /* atomic */

static const struct waiter waits[] = {
	{.kind = &wait_mutex, .on = &held},
	{.kind = &wait_await, .on = &guard},
	{.kind = &wait_cond, .on = &silent, .m = &guard},
	{.kind = &wait_sem, .on = &empty},
	{.kind = &wait_once, .on = &busy},
	{.kind = &wait_barrier, .on = &two},
	{.kind = &wait_park, .on = &two},
	{.kind = &wait_reader, .on = &written},
	{.kind = &wait_writer, .on = &written},
	{.kind = &wait_writer, .on = &read_by_another},
};

static unsigned sleepers(void)
{
	unsigned n = waits_on(&written.writers, NEAR__SPACE_MUTEX) +
		     waits_on(&read_by_another.writers, NEAR__SPACE_MUTEX);

	for (size_t i = 0; i < LENGTH(waits); i++)
		n += waits_of(&waits[i]);
	return n;
}

/* ---- the holder ---- */

static int do_nothing(void *unused)
{
	return 0;
}

static int be_busy(void *unused)
{
	CHECK(near_rwlock_init(&written, NULL) == 0 &&
	      near_rwlock_init(&read_by_another, NULL) == 0);
	near_rwlock_write_lock(&written);
	near_rwlock_read_lock(&read_by_another);
	near_mutex_lock(&held);
	__atomic_store_n(&is_busy, true, __ATOMIC_RELEASE);
	UNTIL(__atomic_load_n(&is_over, __ATOMIC_ACQUIRE));
	near_mutex_unlock(&held);
	near_rwlock_read_unlock(&read_by_another);
	near_rwlock_write_unlock(&written);
	return 0;
}

static void *hold(void *unused)
{
	CHECK(near_once_call(&busy, be_busy, NULL) == 0);
	return unused;
}

static pthread_t holder;

static int begin(void **state)
{
	holder = unit_start(hold, NULL);
	UNTIL(__atomic_load_n(&is_busy, __ATOMIC_ACQUIRE));
	return 0;
}

static int end(void **state)
{
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
	unit_join(holder);
	near_rwlock_destroy(&read_by_another);
	near_rwlock_destroy(&written);
	return 0;
}

/* The i-th wait, with this limit. */
static void ends(size_t i, int expected, int clock, const struct timespec *deadline,
		 struct near_cancel *cancel)
{
	struct waiter w = waits[i];

	w.clock = clock;
	w.deadline = deadline;
	w.cancel = cancel;
	run_waiter(&w);
	if (w.result != expected)
		print_message("wait %zu, clock %d: %d\n", i, clock, w.result);
	assert_int_equal(w.result, expected);
	assert_int_equal(sleepers(), 0);
	assert_int_equal(two.arrived, 0);
}

/* ---- limits ---- */

/* What no wait can use: the clocks of processes and threads, coarse ones, and numbers that name
 * none. */
static const int no_clocks[] = {-1,
				-2,
				INT32_MAX,
				INT32_MIN,
				4711,
				CLOCK_PROCESS_CPUTIME_ID,
				CLOCK_THREAD_CPUTIME_ID,
				CLOCK_MONOTONIC_RAW,
				CLOCK_REALTIME_COARSE,
				CLOCK_MONOTONIC_COARSE};

static void what_is_no_limit_is_an_error(void **state)
{
	static const struct timespec none[] = {{1, -1},       {1, 1000000000},
					       {-1, -1},      {0, LONG_MAX},
					       {0, LONG_MIN}, {INT32_MAX, 1000000000}};
	static const struct timespec right = {1, 0};

	for (size_t i = 0; i < LENGTH(waits); i++) {
		for (size_t k = 0; k < LENGTH(none); k++)
			for (size_t c = 0; c < LENGTH(wait_clocks); c++)
				ends(i, -EINVAL, wait_clocks[c], &none[k], NULL);
		for (size_t c = 0; c < LENGTH(no_clocks); c++)
			ends(i, -EINVAL, no_clocks[c], &right, NULL);
	}
}

static void what_is_past_ends_at_once(void **state)
{
	static const struct timespec past[] = {
		{0, 0}, {0, 1}, {-1, 0}, {-1, 999999999}, {INT32_MIN, 0}};
	struct timespec earliest = {0, 5};

	/* The least number that a time_t can be. */
	earliest.tv_sec = sizeof(time_t) > 4 ? (time_t)INT64_MIN : (time_t)INT32_MIN;
	for (size_t i = 0; i < LENGTH(waits); i++) {
		for (size_t c = 0; c < LENGTH(wait_clocks); c++) {
			for (size_t k = 0; k < LENGTH(past); k++)
				ends(i, -ETIMEDOUT, wait_clocks[c], &past[k], NULL);
			ends(i, -ETIMEDOUT, wait_clocks[c], &earliest, NULL);
		}
	}
}

static void what_is_soon_ends_after_it(void **state)
{
	for (size_t i = 0; i < LENGTH(waits); i++)
		for (size_t c = 0; c < LENGTH(wait_clocks); c++) {
			struct timespec soon = wait_in_ms(wait_clocks[c], 10);

			ends(i, -ETIMEDOUT, wait_clocks[c], &soon, NULL);
			assert_true(wait_is_past(wait_clocks[c], soon));
		}
}

static void *set_when_one_sleeps(void *cancel)
{
	UNTIL(sleepers());
	near_cancel_set(cancel);
	return NULL;
}

static void expect_cancelled(size_t i, int clock, const struct timespec *deadline)
{
	struct near_cancel cancel = NEAR_CANCEL_INIT;
	pthread_t t = unit_start(set_when_one_sleeps, &cancel);

	ends(i, -ECANCELED, clock, deadline, &cancel);
	unit_join(t);
	/* And again with a token that is set. */
	ends(i, -ECANCELED, clock, deadline, &cancel);
}

/* Longer than any machine will run; the last ones overflow in ns, or in the kernel. */
static void what_is_far_away_does_not_end_early(void **state)
{
	struct timespec far[] = {{INT32_MAX, 999999999}, {0, 0}, {0, 0}, {0, 999999999}};

	if (sizeof(time_t) > 4) {
		far[1].tv_sec = (time_t)INT64_C(9223372036);
		far[2].tv_sec = (time_t)INT64_C(0x7000000000000000);
		far[3].tv_sec = (time_t)INT64_MAX;
	}
	for (size_t i = 0; i < LENGTH(waits); i++)
		for (size_t c = 0; c < LENGTH(wait_clocks); c++)
			for (size_t k = 0; k < LENGTH(far) && far[k].tv_sec; k++)
				expect_cancelled(i, wait_clocks[c], &far[k]);
}

static void without_a_deadline_the_clock_does_not_matter(void **state)
{
	for (size_t i = 0; i < LENGTH(waits); i++)
		for (size_t c = 0; c < 3; c++)
			expect_cancelled(i, no_clocks[c], NULL);
}

/* ---- what need not be waited for ---- */

static bool is_true(void *unused)
{
	return true;
}

static int enter_await_true(struct waiter *w)
{
	return enter_await_of(w, is_true);
}

static void post(struct waiter *w)
{
	CHECK(near_sem_post(w->on) == 0);
}

/* Neither a deadline that is past nor a token that is set refuses what is there. */
static void what_is_there_is_taken_in_any_case(void **state)
{
	static const struct timespec past = {0, 0};
	static const struct wait_kind await_true = {0, enter_await_true, NULL},
				      take_unit = {0, enter_sem, post};
	static struct near_once done = {NEAR__ONCE_DONE};
	static struct near_barrier one = NEAR_BARRIER_INIT(1);
	static struct near_sem unit = NEAR_SEM_INIT(1);
	static struct near_rwlock free_lock;
	const struct waiter is_there[] = {
		{.kind = &wait_mutex, .on = &guard},      {.kind = &await_true, .on = &guard},
		{.kind = &take_unit, .on = &unit},        {.kind = &wait_once, .on = &done},
		{.kind = &wait_barrier, .on = &one},      {.kind = &wait_reader, .on = &free_lock},
		{.kind = &wait_writer, .on = &free_lock},
	};
	struct near_cancel cancel = NEAR_CANCEL_INIT;

	assert_int_equal(near_rwlock_init(&free_lock, NULL), 0);
	near_cancel_set(&cancel);
	for (size_t i = 0; i < 6 * LENGTH(is_there); i++) {
		struct waiter w = is_there[i / 6];

		w.clock = i % 2 ? 4711 : wait_clocks[i % 3];
		w.deadline = i % 2 ? NULL : &past;
		w.cancel = i % 3 ? &cancel : NULL;
		run_waiter(&w);
		assert_int_equal(w.result, w.on == &one);
	}
	near_rwlock_destroy(&free_lock);
}

/* ---- waits in a child, for what only the parent has ---- */

static void a_child_does_not_wait_for_ever(void **state)
{
	static const char line[] = "near_mutex_lock: the holder is a thread of the parent process, "
				   "which the fork did not copy";
	struct timespec late = wait_in_ms(CLOCK_MONOTONIC, 60000);

	DIES(line)
		near_mutex_lock(&held);
	DIES(line)
		near_mutex_lock_until(&held, CLOCK_MONOTONIC, &late, NULL);
	IN_CHILD() {
		CHECK(near_once_call(&busy, do_nothing, NULL) == 0);
		CHECK(near_once_is_done(&busy));
		CHECK(!near_mutex_try_lock(&held));
		near_mutex_lock(&guard);
		near_mutex_unlock(&guard);
		CHECK(near_sem_post(&empty) == 0);
		near_sem_wait(&empty);
	}
}

int main(void)
{
	return UNIT_GROUP(begin, NULL, end, what_is_no_limit_is_an_error, what_is_past_ends_at_once,
			  what_is_soon_ends_after_it, what_is_far_away_does_not_end_early,
			  without_a_deadline_the_clock_does_not_matter,
			  what_is_there_is_taken_in_any_case, a_child_does_not_wait_for_ever);
}
