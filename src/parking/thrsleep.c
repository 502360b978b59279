/* SPDX-License-Identifier: MIT */
/* near_thrsleep and near_thrwakeup: the contract of OpenBSD's sys/kern/kern_synch.c on the parking
 * lot. The numbers below are those of the steps in near_thrsleep(3). */
#include <nearcpu/thrsleep.h>

#include <errno.h>
#include <limits.h>

#include "parking/lot.h"

#define SHARED_IDENT ((const void *)-1)

static uint32_t *shared_word(void)
{
	struct near_thr_region *region = __atomic_load_n(&near__lot.region, __ATOMIC_ACQUIRE);

	return region ? &region->wakeups : &near__lot.alone.wakeups;
}

void near_thr_attach(struct near_thr_region *region)
{
	__atomic_store_n(&near__lot.region, region, __ATOMIC_RELEASE);
}

/* Release: pairs with the acquire of the thread that takes the lock next. */
static void thr_release(uint32_t *lock)
{
	if (lock)
		__atomic_store_n(lock, NEAR_THR_UNLOCKED, __ATOMIC_RELEASE);
}

/* Acquire: the thread that sets it may pass data. */
static bool is_aborted(const int *abort)
{
	return abort && __atomic_load_n(abort, __ATOMIC_ACQUIRE) != 0;
}

/* Turns the deadline into a time that is left, of a clock that cannot be set: 0 or a positive
 * error. EWOULDBLOCK: no time is left. */
static int timeout_of(struct near__timeout *t, int clock, const struct timespec *deadline)
{
	int64_t now, end;

	*t = NEAR__NO_TIMEOUT;
	t->interruptible = true;
	if (!deadline)
		return 0;
	now = near__now(clock);
	end = near__ns_of(deadline);
	if (now < 0)
		return EINVAL;
	if (end <= now)
		return EWOULDBLOCK;
	t->clock = CLOCK_MONOTONIC;
	/* A time that overflows is longer than any machine will run. */
	if (__builtin_add_overflow(near__now(CLOCK_MONOTONIC), end - now, &t->deadline))
		t->deadline = NEAR__NEVER;
	return 0;
}

static int sleep_here(const void *ident, const struct near__timeout *t, uint32_t *lock,
		      const int *abort)
{
	struct near__waiter w = {.address = ident, .space = NEAR__SPACE_THR};
	struct near__bucket *b = near__lot_lock(ident);

	near__lot_append(b, &w); /* 6 */
	near__lot_unlock(b);
	thr_release(lock);
	if (is_aborted(abort)) { /* 7 */
		/* A wake-up that was first has found this thread awake, and has woken the next. */
		near__lot_leave(&w);
		return EINTR;
	}
	return -near__lot_sleep(&w, t); /* 8 */
}

/* Acquire: pairs with the release in wake_shared. */
static uint32_t thr_wakeups(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* The count is loaded before the lock is released: a thread that takes the lock next and wakes
 * changes it; and before `abort`: a load that includes a wake-up also finds an abort that was set
 * before that wake-up. Wrapping around to the same value takes 2^32 wake-ups during a sleep. */
static int sleep_shared(const struct near__timeout *t, uint32_t *lock, const int *abort)
{
	uint32_t *word = shared_word(), seen = thr_wakeups(word);
	int r = 0;

	thr_release(lock);
	if (is_aborted(abort))
		return EINTR;
	while (!r && thr_wakeups(word) == seen)
		r = near__futex_wait(word, seen, t, true);
	return thr_wakeups(word) == seen ? -r : 0;
}

static int wake_shared(void)
{
	uint32_t *word = shared_word();

	__atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
	near__futex_wake(word, INT_MAX, true);
	return 0;
}

/* Wakes n sleepers. In OpenBSD, a thread that runs a signal handler, or is stopped, is not in the
 * queue: so for each one that was not asleep, the next one is woken too. Returns whether it found
 * any. */
static bool wake_here(const void *ident, size_t n)
{
	bool found = false;

	while (n) {
		struct near__bucket *b = near__lot_lock(ident);
		struct near__waiter *taken = near__lot_take_some(b, ident, NEAR__SPACE_THR, n);

		near__lot_unlock(b);
		found |= taken != NULL;
		n = near__lot_wake_all(taken);
	}
	return found;
}

int near_thrsleep(const volatile void *volatile_ident, int clock, const struct timespec *deadline,
		  uint32_t *lock, const int *abort)
{
	const void *ident = (const void *)(uintptr_t)volatile_ident;
	struct near__timeout t;
	int r;

	if (deadline && !near__is_time(deadline)) /* 1 */
		return EINVAL;
	if (!ident) /* 2 */
		return EINVAL;
	r = timeout_of(&t, clock, deadline); /* 3, 5 */
	if (r == EWOULDBLOCK)                /* 4 */
		thr_release(lock);
	if (r)
		return r;
	r = ident == SHARED_IDENT ? sleep_shared(&t, lock, abort)
				  : sleep_here(ident, &t, lock, abort);
	return r == ETIMEDOUT ? EWOULDBLOCK : r;
}

int near_thrwakeup(const volatile void *volatile_ident, int n)
{
	const void *ident = (const void *)(uintptr_t)volatile_ident;

	if (!ident)
		return EINVAL;
	if (ident == SHARED_IDENT)
		return wake_shared();
	return wake_here(ident, n > 0 ? (size_t)n : SIZE_MAX) ? 0 : ESRCH;
}
