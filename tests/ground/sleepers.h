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

struct sleeper {
	struct near_lock *lock;
	struct near_lock_stats *stats;
	int *inside;     /* how many have been inside; written by the holder */
	bool *may_leave; /* NULL, or what the holder waits for */
	int signals;     /* written by the handler in this thread */
	int errno_before, errno_after;
	pthread_t thread;
};

static __thread struct sleeper *myself;

static inline void *sleep_for_lock(void *arg)
{
	struct sleeper *me = arg;

	myself = me;
	errno = me->errno_before;
	if (me->stats)
		near_lock_lock_counted(me->lock, me->stats);
	else
		near_lock_lock(me->lock);
	__atomic_store_n(me->inside, *me->inside + 1, __ATOMIC_RELEASE);
	while (me->may_leave && !__atomic_load_n(me->may_leave, __ATOMIC_ACQUIRE))
		usleep(100);
	errno = errno == me->errno_before ? errno : -1;
	near_lock_unlock(me->lock);
	me->errno_after = errno;
	return NULL;
}

/* Starts n sleepers on a lock that the caller holds; returns when all have announced themselves. */
static inline void start_sleepers(struct sleeper *sleepers, int n, struct sleeper like)
{
	like.errno_before = EXDEV;
	for (int i = 0; i < n; i++) {
		sleepers[i] = like;
		sleepers[i].thread = unit_start(sleep_for_lock, &sleepers[i]);
	}
	wait_for_word(like.lock, INSIDE(n + 1) | LOCKED);
}

static inline void join_sleepers(struct sleeper *sleepers, int n)
{
	for (int i = 0; i < n; i++) {
		unit_join(sleepers[i].thread);
		assert_int_equal(sleepers[i].errno_after, EXDEV);
	}
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
