/* SPDX-License-Identifier: MIT */
/* near_mutex: how threads wait for it, and near_mutex_await; src/locks/mutex.h has the argument. */
#define _GNU_SOURCE
#include "mutex.h"
#include "mutex_at.h"
#include "hold_time.h"
#include "slice.h"
#include "ground/probe.h"
#include "ground/spin.h"

#include <errno.h>

/* A waiter leaves the cache line alone before its first try, so that the thread that has the line
 * makes progress: many sections if the hold time is short (hold_time.h), else about one. If it is
 * short, the next tries follow soon: a failed try has fetched the line, which the owner's unlock
 * fetches back in any case. If it is longer, each pause leaves time for another section. Each pause
 * after the first is longer than the one before (spin.h). */
#define FIRST_PAUSE_IF_SHORT_NS 1100
#define FIRST_PAUSE_IF_LONGER_NS 100
#define TRIES_IF_LONGER 7 /* in 950 ns */

/* The number of unlocks that use a CAS after a wait for a mutex with a longer hold time. */
#define UNLOCKS_BY_CAS 64

/* How a thread tries to take the mutex: one that arrives leaves a reserved one alone. */
enum taker { ARRIVING, INSISTING, DESIGNATED_WAKER };

static bool is_left_alone(uint32_t seen, enum taker as)
{
	return flags_of(seen) & RESERVED && as == ARRIVING;
}

static uint32_t taken_by(uint32_t me, uint32_t seen, enum taker as)
{
	uint32_t ends = as == DESIGNATED_WAKER ? WAKING | RESERVED : RESERVED;

	return compose(me, flags_of(seen) & ~ends);
}

static bool take_if_free(struct near_mutex *m, enum taker as)
{
	uint32_t me = near__owner_now(), seen = NEAR__LOAD_RELAXED(&m->word);

	while (!owner_of(seen) && !is_left_alone(seen, as))
		if (NEAR__CAS(&m->word, &seen, taken_by(me, seen, as), __ATOMIC_ACQUIRE))
			return true;
	check_alive(seen);
	return false;
}

bool near__mutex_try_lock_at(struct near_mutex *m, const void *site)
{
	bool taken = take_if_free(m, INSISTING);

	if (taken) {
		NEAR__TSAN_ACQUIRE(m);
		near__lockdep_locked(m, site);
	}
	return taken;
}

bool near__mutex_try_lock_slow(struct near_mutex *m)
{
	return near__mutex_try_lock_at(m, NEAR__SITE);
}

/* Stops the program if a wait for the mutex would not end. */
static void check_owner(const struct near_mutex *m)
{
	uint32_t owner = owner_of(NEAR__LOAD_RELAXED(&m->word));

	if (owner && near__owner_is_me(owner))
		near__die("near_mutex_lock: this thread holds the mutex already");
	if (near__owner_lost_at_fork(&m->word))
		near__die("near_mutex_lock: the holder is a thread of the parent process, "
			  "which the fork did not copy");
}

/* Whether the mutex is free: the designated waker does not come. */
static bool check_holder(struct near__waiter *w)
{
	const struct near_mutex *m = w->address;

	near__owner_check(&m->word, "near_mutex or near_rwlock: the holder, thread ");
	return !owner_of(NEAR__LOAD_RELAXED(&m->word));
}

/* Takes the mutex if it is free. Expects the word to be `seen` without an owner; updates `seen` if
 * it fails. There is no load before the CAS: it would fetch the cache line as a shared one, so that
 * the owner and this thread both had to fetch it again. */
static bool take(struct near_mutex *m, uint32_t *seen, enum taker as)
{
	uint32_t me = near__owner_now();

	do {
		*seen &= ~OWNER;
		if (is_left_alone(*seen, as)) {
			*seen = NEAR__LOAD_RELAXED(&m->word);
			if (is_left_alone(*seen, as))
				return false;
			continue;
		}
		/* Acquire: pairs with the release of the unlock. */
		if (NEAR__CAS(&m->word, seen, taken_by(me, *seen, as), __ATOMIC_ACQUIRE))
			return true;
	} while (!owner_of(*seen));
	return false;
}

/* `seen`: the word, as far as the caller knows. */
static bool take_after_spinning(struct near_mutex *m, uint32_t seen, enum taker as)
{
	bool is_short = near__hold_time_is_short(m);
	unsigned tries = is_short ? NEAR__SPIN_TRIES : TRIES_IF_LONGER;
	unsigned least = is_short ? 0 : FIRST_PAUSE_IF_LONGER_NS;
	unsigned ns = is_short ? FIRST_PAUSE_IF_SHORT_NS : FIRST_PAUSE_IF_LONGER_NS;

	for (unsigned i = 1; i <= tries; i++) {
		near__pause_for(ns);
		if (take(m, &seen, as))
			return true;
		ns = least + i * NEAR__SPIN_LONGER_NS;
	}
	check_alive(seen);
	return false;
}

static bool take_after_yielding(struct near_mutex *m)
{
	return NEAR__YIELD_UNTIL(take_if_free(m, ARRIVING));
}

/* Under the bucket's lock: sets PARKED in the word of an owner whose unlock will find it, and
 * clears WAKING for a designated waker; or sets it in a reserved word. False: the mutex is free, or
 * the owner's sequence stored 0 over PARKED. *before: the flags before that. */
static bool announce(struct near_mutex *m, enum taker as, uint32_t *before)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word), flags, next;

	do {
		flags = *before = flags_of(seen);
		if (!owner_of(seen) && !is_left_alone(seen, as))
			return false;
		next = (as == DESIGNATED_WAKER ? flags & ~WAKING : flags) | PARKED |
		       near__mutex_first_flags(flags);
	} while (!NEAR__CAS(&m->word, &seen, compose(owner_of(seen), next), __ATOMIC_RELAXED));
	return flags || near__mutex_fence_owner(m);
}

/* Enters the queue; sorted by its age if it was in one before: it is a designated waker, or its
 * word is not 0 any more, as it was woken. */
static bool enter(struct near_mutex *m, struct near__waiter *w, enum taker as, uint32_t *before)
{
	struct near__bucket *b = near__lot_lock(m);
	bool announced = announce(m, as, before);

	if (announced && (as == DESIGNATED_WAKER || NEAR__LOAD_RELAXED(&w->word)))
		near__lot_insert(b, w);
	else if (announced)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return announced;
}

/* Sleeps in the queue; `before`: the flags of the word as it entered. 0: it is a designated waker.
 * If there was one, and that does not come, this one makes itself one. */
static int sleep_until_designated(struct near__waiter *w, enum taker as, uint32_t before,
				  const struct near__timeout *timeout)
{
	bool relies = before & WAKING && as != DESIGNATED_WAKER;
	int r;

	if (relies)
		r = near__lot_sleep_for(w, timeout,
					before & RESERVED ? NEAR__RESERVED_NS : NEAR__RELIANCE_NS);
	else
		r = near__lot_sleep(w, timeout);
	return r == -EAGAIN ? 0 : r;
}

/* Waits in the queue of lockers until this thread has the mutex, or the wait ends without. */
static int take_after_parking(struct near_mutex *m, struct near__waiter *w, enum taker as,
			      const struct near__timeout *timeout)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word), before;
	int r = 0;

	for (;;) {
		if (take(m, &seen, as) || (as == DESIGNATED_WAKER && near__hold_time_is_short(m) &&
					   take_after_spinning(m, seen, as)))
			return 0;
		if (r)
			return r;
		if (!enter(m, w, as, &before))
			continue;
		r = sleep_until_designated(w, as, before, timeout);
		as = r ? INSISTING : DESIGNATED_WAKER;
	}
}

static int wait(struct near_mutex *m, uint32_t seen, const struct near__timeout *timeout)
{
	struct near__waiter w = {
		.address = m, .space = NEAR__SPACE_MUTEX, .kind = LOCKER, .check = check_holder};

	if (take_after_spinning(m, seen, ARRIVING))
		return 0;
	check_owner(m);
	w.since = (uint64_t)near__now(CLOCK_MONOTONIC);
	return take_after_yielding(m) ? 0 : take_after_parking(m, &w, ARRIVING, timeout);
}

/* By the owner. Relaxed: it orders nothing; every thread that changes the word checks all flags. */
static void set_flag(struct near_mutex *m, uint32_t flag)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);

	while (!NEAR__CAS(&m->word, &seen, compose(owner_of(seen), flags_of(seen) | flag),
			  __ATOMIC_RELAXED))
		;
}

/* Sets the unlock budget: which of the next unlocks must notify the library, or better use a
 * CAS. */
static void note_wait(const struct near_mutex *m)
{
	unsigned budget = near__hold_time_waited(m);

	if (near__slice_begin() && !budget)
		budget = 1;
	if (!near__hold_time_is_short(m))
		budget = UNLOCKS_BY_CAS;
	if (near__more.owner != NEAR__NO_OWNER) /* else the library sees all unlocks */
		near__more.owner = (uint32_t)near__more.owner | budget * NEAR__EXPECTED;
}

static int lock_slow(struct near_mutex *m, uint32_t seen, const struct near__timeout *timeout,
		     const void *site)
{
	int r = 0;

	/* This may be the thread's first call, so that only its id was missing; or the thread is
	 * checked. */
	if (seen == NEAR__NO_OWNER)
		near__thread_live();
	near__lockdep_before_lock(m, site);
	/* If the word had an owner, it is not loaded again before the pauses. */
	if (owner_of(seen) || !take_if_free(m, ARRIVING)) {
		near__slice_end(); /* which another mutex requested that this thread holds */
		near__probe(NEAR__PROBE_WAIT, m, 0);
		r = wait(m, seen, timeout);
		near__probe(NEAR__PROBE_LOCKED, m, (uint64_t)r);
		if (!r)
			note_wait(m);
	}
	if (!r) {
		NEAR__TSAN_ACQUIRE(m);
		near__lockdep_locked(m, site);
	}
	return r;
}

void near__mutex_lock_slow(struct near_mutex *m, uint32_t seen)
{
	lock_slow(m, seen, &NEAR__NO_TIMEOUT, NEAR__SITE);
}

int near__mutex_lock_timed_at(struct near_mutex *m, const struct near__timeout *timeout,
			      const void *site)
{
	uint32_t seen = near__mutex_fast(m);

	if (seen)
		return lock_slow(m, seen, timeout, site);
	NEAR__TSAN_ACQUIRE(m);
	return 0;
}

void near__mutex_lock_at(struct near_mutex *m, const void *site)
{
	near__mutex_lock_timed_at(m, &NEAR__NO_TIMEOUT, site);
}

int near_mutex_lock_until(struct near_mutex *m, int clock, const struct timespec *deadline,
			  struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	return r ? r : near__mutex_lock_timed_at(m, &timeout, NEAR__SITE);
}

void near__mutex_lock_woken(struct near_mutex *m, struct near__waiter *w)
{
	enum taker as = w->token == DESIGNATED ? DESIGNATED_WAKER : ARRIVING;

	w->kind = LOCKER;
	w->check = check_holder;
	take_after_parking(m, w, as, &NEAR__NO_TIMEOUT);
	NEAR__TSAN_ACQUIRE(m);
}

/* ---- await ---- */

bool near_mutex_is_mine(const struct near_mutex *m)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);

	return seen != DESTROYED && owner_of(seen) && near__owner_is_me(owner_of(seen));
}

/* This thread holds the mutex while it enters the queue, so that every later unlock finds it there.
 * A thread that found the condition true has woken it, but others may have had the mutex since. */
static int await(struct near_mutex *m, bool (*condition)(void *), void *arg,
		 const struct near__timeout *timeout, const void *site)
{
	struct near__waiter w = {
		.address = m,
		.space = NEAR__SPACE_MUTEX,
		.owner = near__owner_now(),
		.condition = condition,
		.arg = arg,
	};
	int r = 0;

	while (!condition(arg)) {
		struct near__bucket *b;

		if (r)
			return r;
		set_flag(m, AWAITED);
		w.kind = AWAITER;
		w.check = NULL;
		w.true_since = 0;
		b = near__lot_lock(m);
		near__lot_append(b, &w);
		near__lot_unlock(b);
		near__mutex_release(m);
		near__lockdep_before_lock(m, site);
		r = near__lot_sleep(&w, timeout);
		if (r) {
			near__mutex_lock_at(m, site);
		} else {
			w.since = w.true_since ? w.true_since
					       : (uint64_t)near__now(CLOCK_MONOTONIC);
			near__mutex_lock_woken(m, &w);
			near__lockdep_locked(m, site);
		}
	}
	return 0;
}

static void check_held(const struct near_mutex *m)
{
	if (!near_mutex_is_mine(m))
		near__die("near_mutex_await: this thread does not hold the mutex");
}

int near_mutex_await_until(struct near_mutex *m, bool (*condition)(void *arg), void *arg, int clock,
			   const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	check_held(m);
	return r ? r : await(m, condition, arg, &timeout, NEAR__SITE);
}

void near_mutex_await(struct near_mutex *m, bool (*condition)(void *arg), void *arg)
{
	check_held(m);
	await(m, condition, arg, &NEAR__NO_TIMEOUT, NEAR__SITE);
}
