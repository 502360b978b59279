/* SPDX-License-Identifier: MIT */
/* Limits of waits: each call that has one, by each deadline that is no time, past, absurd, and by
 * each clock there is and some that are none. */
#include "waits.h"

#include <limits.h>
#include <nearcpu/barrier.h>
#include <nearcpu/cond.h>
#include <nearcpu/mutex.h>
#include <nearcpu/once.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/sem.h>

/* ---- what is waited for, in vain ---- */

static struct near_mutex held, guard;
static struct near_cond silent;
static struct near_sem empty;
static struct near_once busy;
static struct near_barrier two = NEAR_BARRIER_INIT(2);
static struct near_rwlock written, read_by_another;
static bool is_busy, is_over; /* atomic */

struct limit {
	int clock;
	const struct timespec *deadline;
	struct near_cancel *cancel;
};

static int wait_mutex(const struct limit *l)
{
	return near_mutex_lock_until(&held, l->clock, l->deadline, l->cancel);
}

static bool never(void *unused)
{
	return false;
}

static int wait_condition(const struct limit *l)
{
	int r;

	near_mutex_lock(&guard);
	r = near_mutex_await_until(&guard, never, NULL, l->clock, l->deadline, l->cancel);
	near_mutex_unlock(&guard);
	return r;
}

static int wait_signal(const struct limit *l)
{
	int r;

	near_mutex_lock(&guard);
	r = near_cond_wait_until(&silent, &guard, l->clock, l->deadline, l->cancel);
	near_mutex_unlock(&guard);
	return r;
}

static int wait_unit(const struct limit *l)
{
	return near_sem_wait_until(&empty, l->clock, l->deadline, l->cancel);
}

static int do_nothing(void *unused)
{
	return 0;
}

static int wait_once(const struct limit *l)
{
	return near_once_call_until(&busy, do_nothing, NULL, l->clock, l->deadline, l->cancel);
}

static int wait_others(const struct limit *l)
{
	return near_barrier_wait_until(&two, l->clock, l->deadline, l->cancel);
}

static int wait_parked(const struct limit *l)
{
	struct near_park p = {.clock = l->clock, .deadline = l->deadline, .cancel = l->cancel};

	return near_park(&two, &p);
}

static int wait_reader(const struct limit *l)
{
	return near_rwlock_read_lock_until(&written, l->clock, l->deadline, l->cancel);
}

static int wait_writer(const struct limit *l)
{
	return near_rwlock_write_lock_until(&written, l->clock, l->deadline, l->cancel);
}

static int wait_for_reader(const struct limit *l)
{
	return near_rwlock_write_lock_until(&read_by_another, l->clock, l->deadline, l->cancel);
}

static int (*const waits[])(const struct limit *) = {
	wait_mutex,  wait_condition, wait_signal, wait_unit,   wait_once,
	wait_others, wait_parked,    wait_reader, wait_writer, wait_for_reader,
};

static const struct {
	const void *address;
	enum near__space space;
} places[] = {
	{&held, NEAR__SPACE_MUTEX},
	{&guard, NEAR__SPACE_MUTEX},
	{&silent, NEAR__SPACE_COND},
	{&empty, NEAR__SPACE_SEM},
	{&busy, NEAR__SPACE_ONCE},
	{&two, NEAR__SPACE_BARRIER},
	{&two, NEAR__SPACE_PARK},
	{&written, NEAR__SPACE_RWLOCK},
	{&written, NEAR__SPACE_MUTEX},
	{&read_by_another, NEAR__SPACE_RWLOCK},
	{&read_by_another, NEAR__SPACE_MUTEX},
};

static bool no_longer_waited_for(void)
{
	for (size_t i = 0; i < LENGTH(places); i++)
		if (waits_on(places[i].address, places[i].space))
			return false;
	return true;
}

/* ---- the holder ---- */

static int be_busy(void *unused)
{
	CHECK(near_rwlock_init(&written) == 0 && near_rwlock_init(&read_by_another) == 0);
	near_rwlock_write_lock(&written);
	near_rwlock_read_lock(&read_by_another);
	near_mutex_lock(&held);
	__atomic_store_n(&is_busy, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		usleep(1000);
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
	while (!__atomic_load_n(&is_busy, __ATOMIC_ACQUIRE))
		usleep(1000);
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

static void expect(size_t i, const struct limit *l, int expected)
{
	int r;

	errno = UNIT_ERRNO;
	r = waits[i](l);
	if (r != expected)
		print_message("wait %zu, clock %d: %d\n", i, l->clock, r);
	assert_int_equal(r, expected);
	assert_int_equal(errno, UNIT_ERRNO);
	assert_true(no_longer_waited_for());
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
				expect(i, &(struct limit){wait_clocks[c], &none[k], NULL}, -EINVAL);
		for (size_t c = 0; c < LENGTH(no_clocks); c++)
			expect(i, &(struct limit){no_clocks[c], &right, NULL}, -EINVAL);
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
				expect(i, &(struct limit){wait_clocks[c], &past[k], NULL},
				       -ETIMEDOUT);
			expect(i, &(struct limit){wait_clocks[c], &earliest, NULL}, -ETIMEDOUT);
		}
	}
}

static void *set_soon(void *cancel)
{
	usleep(2000);
	near_cancel_set(cancel);
	return NULL;
}

static void expect_cancelled(size_t i, int clock, const struct timespec *deadline)
{
	struct near_cancel cancel = NEAR_CANCEL_INIT;
	pthread_t t = unit_start(set_soon, &cancel);

	expect(i, &(struct limit){clock, deadline, &cancel}, -ECANCELED);
	unit_join(t);
	/* And again with a token that is set. */
	expect(i, &(struct limit){clock, deadline, &cancel}, -ECANCELED);
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

/* ---- waits in a child, for what only the parent has ---- */

UNIT_CALLS(lock_in_child, near_mutex_lock(&held))

static void lock_until_in_child(void *unused)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 60000);

	near_mutex_lock_until(&held, CLOCK_MONOTONIC, &soon, NULL);
}

static void do_in_child(void *unused)
{
	CHECK(near_once_call(&busy, do_nothing, NULL) == 0);
	CHECK(near_once_is_done(&busy));
	CHECK(!near_mutex_try_lock(&held));
	near_mutex_lock(&guard);
	near_mutex_unlock(&guard);
	CHECK(near_sem_post(&empty) == 0);
	near_sem_wait(&empty);
}

static void a_child_does_not_wait_for_ever(void **state)
{
	static const char line[] = "near_mutex_lock: the holder is a thread of the parent process, "
				   "which the fork did not copy";

	unit_dies(lock_in_child, NULL, line);
	unit_dies(lock_until_in_child, NULL, line);
	unit_in_child(do_in_child, NULL);
}

/* ---- destroyed ---- */

static struct near_mutex *destroyed(void)
{
	static struct near_mutex m;

	near_mutex_destroy(&m);
	return &m;
}

UNIT_CALLS(lock_destroyed, near_mutex_lock(destroyed()))
UNIT_CALLS(try_destroyed, near_mutex_try_lock(destroyed()))

static void lock_destroyed_until(void *unused)
{
	struct timespec past = {0, 0};

	near_mutex_lock_until(destroyed(), CLOCK_REALTIME, &past, NULL);
}

UNIT_CALLS(unlock_destroyed_fairly, near_mutex_unlock_fair(destroyed()))
UNIT_CALLS(destroy_twice, near_mutex_destroy(destroyed()))
UNIT_CALLS(await_destroyed, near_mutex_await(destroyed(), never, NULL))
UNIT_CALLS(wait_with_destroyed, near_cond_wait(&silent, destroyed()))

static void what_is_destroyed_stops_the_program(void **state)
{
	static const char line[] = "near_mutex: the mutex was destroyed";

	unit_dies(lock_destroyed, NULL, line);
	unit_dies(try_destroyed, NULL, line);
	unit_dies(lock_destroyed_until, NULL, line);
	unit_dies(unlock_destroyed_fairly, NULL, line);
	unit_dies(destroy_twice, NULL, line);
	unit_dies(await_destroyed, NULL, "near_mutex_await: this thread does not hold the mutex");
	unit_dies(wait_with_destroyed, NULL, "near_cond_wait: this thread does not hold the mutex");
	assert_false(near_mutex_is_mine(destroyed()));
}

int main(void)
{
	return UNIT_GROUP(begin, NULL, end, what_is_no_limit_is_an_error, what_is_past_ends_at_once,
			  what_is_far_away_does_not_end_early,
			  without_a_deadline_the_clock_does_not_matter,
			  a_child_does_not_wait_for_ever, what_is_destroyed_stops_the_program);
}
