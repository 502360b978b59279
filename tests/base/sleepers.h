/* SPDX-License-Identifier: MIT */
/* What the tests of near_lock share: its word, and threads that sleep until they get it.
 *
 * Threads other than the main one do not assert: they leave what they saw for it to check. */
#ifndef NEARCPU_TESTS_SLEEPERS_H
#define NEARCPU_TESTS_SLEEPERS_H

#include "unit.h"

#include <nearcpu/lock.h>

#define LOCKED NEAR__LOCK_LOCKED
#define WAKING NEAR__LOCK_WAKING
#define INSIDE(n) ((uint64_t)(n)*NEAR__LOCK_ONE)

static inline uint64_t word_of(struct near_lock *lock)
{
	return __atomic_load_n(&lock->word, __ATOMIC_ACQUIRE);
}

static inline void set_word(struct near_lock *lock, uint64_t word)
{
	__atomic_store_n(&lock->word, word, __ATOMIC_RELEASE);
}

static inline void wait_for_word(struct near_lock *lock, uint64_t word)
{
	while (word_of(lock) != word)
		usleep(100);
}

/* The lock that the main thread holds while the others sleep. */
static struct {
	struct near_lock lock;
	int inside; /* how many have been inside; written by the holder */
	bool stay;  /* until it is false the holder keeps the lock */
} shared;

static struct sleeper {
	int signals; /* written by the handler in this thread */
	int errno_after;
	pthread_t thread;
} sleepers[16];

static __thread struct sleeper *myself;

static inline void *sleep_for_lock(void *arg)
{
	myself = arg;
	errno = EXDEV;
	near_lock_lock(&shared.lock);
	__atomic_store_n(&shared.inside, shared.inside + 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&shared.stay, __ATOMIC_ACQUIRE))
		usleep(100);
	errno = errno == EXDEV ? EXDEV : -1;
	near_lock_unlock(&shared.lock);
	myself->errno_after = errno;
	return NULL;
}

/* Takes the lock and starts n sleepers; returns when all have announced themselves. */
static inline void start_sleepers(int n)
{
	near_lock_lock(&shared.lock);
	shared.inside = 0;
	for (int i = 0; i < n; i++)
		sleepers[i].thread = unit_start(sleep_for_lock, &sleepers[i]);
	wait_for_word(&shared.lock, INSIDE(n + 1) | LOCKED);
	assert_int_equal(__atomic_load_n(&shared.inside, __ATOMIC_ACQUIRE), 0);
}

static inline void join_sleepers(int n)
{
	for (int i = 0; i < n; i++) {
		unit_join(sleepers[i].thread);
		assert_int_equal(sleepers[i].errno_after, EXDEV);
	}
	assert_int_equal(shared.inside, n);
	assert_int_equal(word_of(&shared.lock), 0);
}

/* Unlocks, and each of the n sleepers gets in. */
static inline void wake_sleepers(int n)
{
	near_lock_unlock(&shared.lock);
	join_sleepers(n);
}

static inline void note_signal(int signal)
{
	if (myself)
		__atomic_fetch_add(&myself->signals, 1, __ATOMIC_RELAXED);
}

static inline void catch_signals(int flags)
{
	struct sigaction action = {.sa_handler = note_signal, .sa_flags = flags};

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

/* ThreadSanitizer holds a signal back until the thread calls something that it intercepts, and a
 * system call of our own is not. */
static inline void need_prompt_signals(void)
{
	if (UNIT_THREAD_SANITIZER)
		skip();
}

#endif
