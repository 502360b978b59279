/* SPDX-License-Identifier: MIT */
/* near_lock: its states step by step, sleepers, statistics, misuse. */
#include "sleepers.h"

/* ---- states ---- */

static struct near_lock early_lock;
static bool early_was_free, early_is_free;

/* Runs before any constructor without a priority of its own, those of the library included. */
__attribute__((constructor(101))) static void use_before_constructors(void)
{
	near_lock_lock(&early_lock);
	early_was_free = !near_lock_try_lock(&early_lock);
	near_lock_unlock(&early_lock);
	early_is_free = near_lock_try_lock(&early_lock);
	near_lock_unlock(&early_lock);
}

static void zero_is_a_free_lock(void **state)
{
	struct near_lock lock = NEAR_LOCK_INIT;
	struct near_lock *allocated = calloc(1, sizeof(*allocated));

	assert_int_equal(sizeof(struct near_lock), 8);
	assert_int_equal(_Alignof(struct near_lock), 8);
	assert_int_equal(word_of(&lock), 0);
	assert_true(early_was_free && early_is_free);

	assert_non_null(allocated);
	near_lock_lock(allocated);
	assert_int_equal(word_of(allocated), INSIDE(1) | LOCKED);
	near_lock_unlock(allocated);
	assert_int_equal(word_of(allocated), 0);
	free(allocated);
}

/* A thread that has not announced itself can find each of these words. */
static void lock_and_try_lock_keep_what_they_find(void **state)
{
	static const uint64_t free_words[] = {0, INSIDE(1), INSIDE(3), INSIDE(1) | WAKING,
					      INSIDE(3) | WAKING};
	struct near_lock lock = NEAR_LOCK_INIT;

	for (size_t i = 0; i < LENGTH(free_words); i++) {
		set_word(&lock, free_words[i]);
		assert_true(near_lock_try_lock(&lock));
		assert_int_equal(word_of(&lock), free_words[i] + INSIDE(1) + LOCKED);

		set_word(&lock, free_words[i]);
		near_lock_lock(&lock);
		assert_int_equal(word_of(&lock), free_words[i] + INSIDE(1) + LOCKED);
		assert_false(near_lock_try_lock(&lock));
		assert_int_equal(word_of(&lock), free_words[i] + INSIDE(1) + LOCKED);
	}
}

static void unlock_promises_once_to_wake(void **state)
{
	static const struct {
		uint64_t before, after;
	} steps[] = {
		{INSIDE(1) | LOCKED, 0},
		{INSIDE(2) | LOCKED, INSIDE(1) | WAKING},
		{INSIDE(9) | LOCKED, INSIDE(8) | WAKING},
		{INSIDE(2) | LOCKED | WAKING, INSIDE(1) | WAKING},
		{INSIDE(9) | LOCKED | WAKING, INSIDE(8) | WAKING},
	};
	struct near_lock lock;

	for (size_t i = 0; i < LENGTH(steps); i++) {
		set_word(&lock, steps[i].before);
		near_lock_unlock(&lock);
		assert_int_equal(word_of(&lock), steps[i].after);
	}
}

/* ---- sleepers ---- */

static void every_sleeper_gets_in(void **state)
{
	for (int round = 0; round < 20; round++) {
		start_sleepers(16);
		wake_sleepers(16);
	}
}

static void a_sleeper_takes_the_promise_with_the_lock(void **state)
{
	shared.stay = true;
	start_sleepers(1);
	near_lock_unlock(&shared.lock);
	wait_for_word(&shared.lock, INSIDE(1) | LOCKED);
	__atomic_store_n(&shared.stay, false, __ATOMIC_RELEASE);
	join_sleepers(1);
}

static void signal_once(struct sleeper *sleeper)
{
	int before = __atomic_load_n(&sleeper->signals, __ATOMIC_RELAXED);

	assert_int_equal(pthread_kill(sleeper->thread, SIGUSR1), 0);
	while (__atomic_load_n(&sleeper->signals, __ATOMIC_RELAXED) == before)
		sched_yield();
}

/* A sleeper that returns while another thread holds the lock and WAKING is set must clear it before
 * it sleeps again, or the holder's unlock wakes nobody. The signal brings it back; the test plays
 * the unlock that set WAKING, and the thread that then came first. */
static void a_sleeper_renews_the_promise_before_it_sleeps(void **state)
{
	need_prompt_signals();
	catch_signals(0);
	start_sleepers(1);
	__atomic_fetch_or(&shared.lock.word, WAKING, __ATOMIC_RELAXED);
	signal_once(&sleepers[0]);
	wait_for_word(&shared.lock, INSIDE(2) | LOCKED);
	wake_sleepers(1);
}

static void signals_neither_admit_nor_lose_a_sleeper(void **state)
{
	static const int flags[] = {0, SA_RESTART};

	need_prompt_signals();
	for (size_t i = 0; i < LENGTH(flags); i++) {
		catch_signals(flags[i]);
		start_sleepers(4);
		for (int n = 0; n < 100; n++)
			signal_once(&sleepers[n % 4]);
		assert_int_equal(__atomic_load_n(&shared.inside, __ATOMIC_ACQUIRE), 0);
		assert_int_equal(word_of(&shared.lock), INSIDE(5) | LOCKED);
		wake_sleepers(4);
	}
}

/* Free, but a woken thread is not yet running: the first load after a few pauses finds this. */
static void a_lock_is_free_while_a_thread_is_woken(void **state)
{
	struct near_lock lock = NEAR_LOCK_INIT;

	set_word(&lock, INSIDE(1) | WAKING);
	near_lock_lock(&lock);
	assert_int_equal(word_of(&lock), INSIDE(2) | LOCKED | WAKING);
}

/* ---- misuse ---- */

static void misuse_stops_the_program(void **state)
{
	static const char not_held[] = "near_lock_unlock: the lock is not held";
	struct near_lock lock = NEAR_LOCK_INIT, waited_for = {INSIDE(2) | WAKING};

	DIES(not_held)
		near_lock_unlock(&lock);
	DIES(not_held)
		near_lock_unlock(&waited_for);
	DIES("near_lock_reset_in_child: the lock was not held at the fork")
		near_lock_reset_in_child(&lock);
	near_lock_lock(&lock);
	near_lock_unlock(&lock);
	DIES(not_held) /* unlocked twice */
		near_lock_unlock(&lock);
}

UNIT_MAIN(zero_is_a_free_lock, lock_and_try_lock_keep_what_they_find, unlock_promises_once_to_wake,
	  every_sleeper_gets_in, a_sleeper_takes_the_promise_with_the_lock,
	  a_sleeper_renews_the_promise_before_it_sleeps, signals_neither_admit_nor_lose_a_sleeper,
	  a_lock_is_free_while_a_thread_is_woken, misuse_stops_the_program)
