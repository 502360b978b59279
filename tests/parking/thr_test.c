/* SPDX-License-Identifier: MIT */
/* near_thrsleep: the numbered rules of OpenBSD's contract, one by one. The program is linked with
 * --wrap=clock_gettime. */
#include "thr_sleepers.h"

#include "clock.h"

/* How much CLOCK_REALTIME is ahead of itself, in seconds. */
static long realtime_step;

static int64_t clock_of_test(clockid_t clock)
{
	long step = __atomic_load_n(&realtime_step, __ATOMIC_RELAXED);
	struct timespec t;

	if (clock != CLOCK_REALTIME || !step || __real_clock_gettime(clock, &t))
		return REAL_CLOCK;
	return (t.tv_sec + step) * INT64_C(1000000000) + t.tv_nsec;
}

/* Rules 1 to 3: an error, the lock is held as before, `abort` not read. */
static void expect_refused(const void *id, clockid_t clock, const struct timespec *deadline)
{
	int *abort = unreadable();
	uint32_t lock = 1;

	assert_int_equal(near_thrsleep(id, clock, deadline, &lock, abort), EINVAL);
	assert_int_equal(lock, 1);
	munmap(abort, 4096);
}

static void rule_1_a_deadline_that_is_no_time(void **state)
{
	static const struct timespec wrong[] = {{5, -1}, {5, 1000000000}, {-1, 1000000000}};

	for (size_t i = 0; i < LENGTH(wrong); i++)
		expect_refused(ident, CLOCK_MONOTONIC, &wrong[i]);
}

static void rule_2_ident_0(void **state)
{
	struct timespec past = {0, 0};

	expect_refused(NULL, CLOCK_MONOTONIC, NULL);
	expect_refused(NULL, CLOCK_MONOTONIC, &past);
	assert_int_equal(near_thrwakeup(NULL, 1), EINVAL);
}

static void rule_3_an_unknown_clock(void **state)
{
	struct timespec past = {0, 0};
	int abort = -1; /* whatever is not 0 */
	uint32_t lock = 1;

	expect_refused(ident, 4711, &past);
	/* Ignored without a deadline: it gets as far as to `abort`. */
	assert_int_equal(near_thrsleep(ident, 4711, NULL, &lock, &abort), EINTR);
	assert_int_equal(lock, NEAR_THR_UNLOCKED);
}

static void rule_4_a_past_deadline_comes_before_abort(void **state)
{
	static const struct timespec past[] = {{0, 0}, {0, 1}, {-1, 0}, {TIME_MIN, 0}};
	static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME,
					   CLOCK_PROCESS_CPUTIME_ID};
	int *abort = unreadable();

	for (size_t c = 0; c < LENGTH(clocks); c++)
		for (size_t i = 0; i < LENGTH(past); i++) {
			uint32_t lock = 1;

			assert_int_equal(near_thrsleep(ident, clocks[c], &past[i], &lock, abort),
					 EWOULDBLOCK);
			assert_int_equal(lock, NEAR_THR_UNLOCKED);
		}
	assert_int_equal(near_thrsleep(ident, CLOCK_MONOTONIC, &past[0], NULL, NULL), EWOULDBLOCK);
	munmap(abort, 4096);
}

/* The clock is an hour ahead at the call, and set back during the sleep: an absolute time would be
 * an hour away by the kernel's clock, or by the one that was set. */
static void rule_5_the_wait_is_relative(void **state)
{
	struct timespec soon, end = wait_in_ms(CLOCK_MONOTONIC, 100);
	struct sleeper s = {.ident = ident, .clock = CLOCK_REALTIME, .deadline = &soon, .lock = 1};

	__atomic_store_n(&realtime_step, 3600, __ATOMIC_RELAXED);
	soon = wait_in_ms(CLOCK_REALTIME, 100);
	s.thread = unit_start(sleep_there, &s);
	wait_unlocked(&s.lock);
	__atomic_store_n(&realtime_step, 0, __ATOMIC_RELAXED);
	expect(&s, EWOULDBLOCK);
	assert_true(wait_is_past(CLOCK_MONOTONIC, end));
}

static void rule_5_huge_deadlines_are_clamped(void **state)
{
	/* The last is INT64_MAX ns. */
	static const struct timespec huge[] = {
		{TIME_MAX / 8 * 7, 0},
		{TIME_MAX, 999999999},
		{sizeof(time_t) > 4 ? (time_t)INT64_C(9223372036) : TIME_MAX, 854775807}};
	static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};

	for (size_t c = 0; c < LENGTH(clocks); c++)
		for (size_t i = 0; i < LENGTH(huge); i++) {
			struct sleeper s = {
				.ident = ident, .clock = clocks[c], .deadline = &huge[i]};

			start_sleeper(&s);
			usleep(2000);
			assert_int_equal(near_thrwakeup(ident, 1), 0);
			expect(&s, 0);
		}
}

/* A thread that takes the lock after the sleeper released it finds the sleeper in the queue. */
static void rule_6_queued_before_the_lock_is_released(void **state)
{
	for (unsigned i = 0; i < unit_scale(2000); i++) {
		struct sleeper s = {.ident = ident, .lock = 1};

		s.thread = unit_start(sleep_there, &s);
		while (__atomic_load_n(&s.lock, __ATOMIC_ACQUIRE))
			sched_yield();
		assert_int_equal(near_thrwakeup(ident, 1), 0);
		expect(&s, 0);
	}
}

static void rule_6_first_in_first_out(void **state)
{
	struct sleeper s[4];

	start_sleepers(s, 4, ident);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(near_thrwakeup(ident, 1), 0);
		expect(&s[i], 0);
		assert_int_equal(sleepers_on(ident), 3 - i);
	}
}

/* The access to a page, which is `abort` or the lock, faults once, so that the handler sees the
 * world as it is at that moment. */
static struct {
	int *page;
	const struct sleeper *sleepers; /* that the handler waits for: two, or none */
	bool wake;
	uint32_t lock, lock_then;
	unsigned faults, queued;
	int woke, left; /* what is in the page in the end */
} fault;

static void at_fault(int signal)
{
	for (unsigned i = 0; fault.sleepers && i < 2; i++)
		UNTIL(sleepers_on(ident) == 3 && noted_sleeps(&fault.sleepers[i].tid));
	fault.faults++;
	fault.lock_then = fault.lock;
	fault.queued = sleepers_on(ident);
	if (fault.wake)
		fault.woke = near_thrwakeup(ident, 1);
	mprotect(fault.page, 4096, PROT_READ | PROT_WRITE);
}

/* The page holds a 1. */
static void prepare_fault(int protection)
{
	if (UNIT_SANITIZED || unit_emulated())
		skip();
	memset(&fault, 0, sizeof(fault));
	fault.lock = 1;
	fault.page = unit_map(4096, MAP_PRIVATE);
	*fault.page = 1;
	mprotect(fault.page, 4096, protection);
	on_signal(SIGSEGV, at_fault, 0);
}

static void sleep_with_fault(uint32_t *lock, const int *abort)
{
	assert_int_equal(near_thrsleep(ident, 0, NULL, lock, abort), EINTR);
	on_signal(SIGSEGV, SIG_DFL, 0);
	assert_int_equal(fault.faults, 1);
	fault.left = *fault.page;
	munmap(fault.page, 4096);
}

static void rule_6_in_the_queue_at_the_store_to_the_lock(void **state)
{
	int abort = 1;

	prepare_fault(PROT_READ);
	sleep_with_fault((uint32_t *)fault.page, &abort);
	assert_int_equal(fault.queued, 1);
	assert_int_equal(fault.left, NEAR_THR_UNLOCKED);
}

static void rule_7_abort_is_read_after_the_unlock(void **state)
{
	prepare_fault(PROT_NONE);
	sleep_with_fault(&fault.lock, fault.page);
	assert_int_equal(fault.lock_then, NEAR_THR_UNLOCKED);
	assert_int_equal(fault.queued, 1);
	assert_int_equal(sleepers_on(ident), 0);
}

/* No other thread sleeps. */
static void rule_7_an_aborted_sleeper_passes_its_wake_up_on(void **state)
{
	prepare_fault(PROT_NONE);
	fault.wake = true;
	sleep_with_fault(&fault.lock, fault.page);
	assert_int_equal(fault.woke, 0);
	assert_int_equal(sleepers_on(ident), 0);
}

static void *sleep_second(void *arg)
{
	UNTIL(sleepers_on(ident) == 1);
	return sleep_there(arg);
}

static void *sleep_third(void *arg)
{
	UNTIL(sleepers_on(ident) == 2);
	return sleep_there(arg);
}

/* And no other sleeper does. */
static void rule_7_the_next_sleeper_gets_it(void **state)
{
	struct sleeper next[2] = {{.ident = ident, .lock = 1}, {.ident = ident, .lock = 1}};

	prepare_fault(PROT_NONE);
	fault.sleepers = next;
	fault.wake = true;
	next[0].thread = unit_start(sleep_second, &next[0]);
	next[1].thread = unit_start(sleep_third, &next[1]);
	sleep_with_fault(&fault.lock, fault.page);
	assert_int_equal(fault.queued, 3);
	assert_int_equal(fault.woke, 0);
	expect(&next[0], 0);
	assert_int_equal(sleepers_on(ident), 1);
	assert_int_equal(near_thrwakeup(ident, 1), 0);
	expect(&next[1], 0);
}

static void rule_8_woken_timed_out_interrupted(void **state)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 20);
	struct sleeper s = {.ident = ident};
	int no_abort = 0;
	uint32_t lock = 1;

	assert_int_equal(near_thrsleep(ident, CLOCK_MONOTONIC, &soon, &lock, &no_abort),
			 EWOULDBLOCK);
	assert_true(wait_is_past(CLOCK_MONOTONIC, soon));
	s.abort = &no_abort;
	start_sleeper(&s);
	assert_int_equal(near_thrwakeup(ident, 1), 0);
	expect(&s, 0);
	if (UNIT_THREAD_SANITIZER)
		skip();
	catch_signals(0);
	start_sleeper(&s);
	while (sleepers_on(ident)) {
		pthread_kill(s.thread, SIGUSR1);
		usleep(1000);
	}
	expect(&s, EINTR);
}

/* Takes the sleeper when its time is over, before it can leave: that takes the bucket's lock, which
 * is held here. False: it left before that. */
static bool take_late(long ms)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, ms);
	struct sleeper s = {.ident = ident, .clock = CLOCK_MONOTONIC, .deadline = &soon, .lock = 1};
	struct near__bucket *b;
	struct near__waiter *w;

	s.thread = unit_start(sleep_there, &s);
	while (__atomic_load_n(&s.lock, __ATOMIC_ACQUIRE))
		sched_yield();
	b = near__lot_lock(ident);
	w = near__lot_first(b, ident, NEAR__SPACE_THR);
	usleep(2000 * (useconds_t)ms);
	if (w)
		near__lot_take(b, w);
	near__lot_unlock(b);
	if (w)
		near__lot_wake(w);
	expect(&s, w ? 0 : EWOULDBLOCK);
	return w;
}

static void rule_8_taken_first_is_woken(void **state)
{
	long ms = 10;

	while (!take_late(ms))
		ms *= 2;
}

UNIT_MAIN(rule_1_a_deadline_that_is_no_time, rule_2_ident_0, rule_3_an_unknown_clock,
	  rule_4_a_past_deadline_comes_before_abort, rule_5_the_wait_is_relative,
	  rule_5_huge_deadlines_are_clamped, rule_6_queued_before_the_lock_is_released,
	  rule_6_first_in_first_out, rule_6_in_the_queue_at_the_store_to_the_lock,
	  rule_7_abort_is_read_after_the_unlock, rule_7_an_aborted_sleeper_passes_its_wake_up_on,
	  rule_7_the_next_sleeper_gets_it, rule_8_woken_timed_out_interrupted,
	  rule_8_taken_first_is_woken)
