/* SPDX-License-Identifier: MIT */
/* near_mutex: lock, unlock, destroy, in the order of the protocol; src/locks/mutex.h has the
 * argument, and tuning.h what only saves time. */
#define _GNU_SOURCE
#include "locks/mutex.h"
#include "base/probe.h"
#include "base/spin.h"
#include "locks/mutex_at.h"
#include "locks/tuning.h"

#include <errno.h>

/* ---- the word ---- */

static uint32_t fork_count(void)
{
	return near__lot.forks << FORKS_SHIFT & ~(OWNER | FLAGS);
}

static uint32_t word_compose(uint32_t owner, uint32_t flags)
{
	return owner | flags | (flags ? fork_count() : 0);
}

static uint32_t owner_of(uint32_t word)
{
	return word & OWNER;
}

static uint32_t flags_of(uint32_t word)
{
	return (word & ~(OWNER | FLAGS)) == fork_count() ? word & FLAGS : 0;
}

static void check_alive(uint32_t word)
{
	if (word == DESTROYED)
		near__die("near_mutex: the mutex was destroyed");
}

bool near_mutex_is_mine(const struct near_mutex *m)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);

	return seen != DESTROYED && owner_of(seen) && near__owner_is_me(owner_of(seen));
}

/* ---- take ---- */

/* How a thread tries to take the mutex: one that arrives leaves a reserved one alone. */
enum taker { ARRIVING, INSISTING, DESIGNATED_WAKER };

static bool is_left_alone(uint32_t seen, enum taker as)
{
	return flags_of(seen) & RESERVED && as == ARRIVING;
}

static uint32_t taken_by(uint32_t me, uint32_t seen, enum taker as)
{
	uint32_t ends = as == DESIGNATED_WAKER ? WAKING | RESERVED : RESERVED;

	return word_compose(me, flags_of(seen) & ~ends);
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

/* Takes the mutex if it is free. Expects the word to be `seen` without an owner; updates `seen` if
 * it fails. There is no load before the CAS: it would fetch the cache line as a shared one, so that
 * the owner and this thread both had to fetch it again. */
static bool mutex_take(struct near_mutex *m, uint32_t *seen, enum taker as)
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

/* ---- wait ---- */

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

/* `seen`: the word, as far as the caller knows. */
static bool take_after_spinning(struct near_mutex *m, uint32_t seen, enum taker as)
{
	struct near__spinning spinning = near__tuning_before_wait(m);
	unsigned ns = spinning.first_ns;

	/* A designated waker has slept: it spins only where the mutex is free soon. */
	for (unsigned i = 1; i <= spinning.tries && (as == ARRIVING || spinning.is_short); i++) {
		near__pause_for(ns);
		if (mutex_take(m, &seen, as))
			return true;
		ns = spinning.least_ns + i * NEAR__SPIN_LONGER_NS;
	}
	check_alive(seen);
	return false;
}

static bool take_after_yielding(struct near_mutex *m)
{
	bool others_sleep = flags_of(NEAR__LOAD_RELAXED(&m->word)) & PARKED;

	return (!others_sleep || near__tuning_yields_again(m)) &&
	       NEAR__YIELD_UNTIL(take_if_free(m, ARRIVING));
}

/* ---- the first flag: ATOMIC_UNLOCK, or a fence ---- */

/* The flags that are set together with the first flag in the word of another owner. */
static uint32_t first_flags(uint32_t flags)
{
	return !flags && near__tuning_unlocks_per_fence() > 1 ? ATOMIC_UNLOCK : 0;
}

/* Under the bucket's lock, after PARKED was set in the word of an owner without flags: aborts that
 * owner's sequence. False: the sequence had committed its 0, so that PARKED is lost. */
static bool fence_owner(const struct near_mutex *m)
{
	/* If the word names this thread by its id before a fork, no sequence can be in progress,
	 * and the fence is superfluous. */
	if (owner_of(NEAR__LOAD_RELAXED(&m->word)) == near__owner_now())
		return true;
	/* Decides whether threads can be live at all, which near__fence checks. (Within the
	 * decision itself none is live yet; threads that become live acquire the decision, and so
	 * the flag.)
	 */
	near__process_init();
	near__fence();
	/* Relaxed: a count. */
	__atomic_fetch_add(&near__locks.fences, 1, __ATOMIC_RELAXED);
	return flags_of(NEAR__LOAD_RELAXED(&m->word)) & PARKED;
}

/* ---- enter the queue, and sleep ---- */

/* Under the bucket's lock: sets PARKED in the word of an owner whose unlock will find it, and
 * clears WAKING for a designated waker; or sets it in a reserved word. False: the mutex is free, or
 * the owner's sequence stored 0 over PARKED. *before: the flags before that. */
static bool mutex_announce(struct near_mutex *m, enum taker as, uint32_t *before)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word), flags, next;

	do {
		flags = *before = flags_of(seen);
		if (!owner_of(seen) && !is_left_alone(seen, as))
			return false;
		next = (as == DESIGNATED_WAKER ? flags & ~WAKING : flags) | PARKED |
		       first_flags(flags);
	} while (!NEAR__CAS(&m->word, &seen, word_compose(owner_of(seen), next), __ATOMIC_RELAXED));
	return flags || fence_owner(m);
}

/* Enters the queue; sorted by its age if it was in one before: it is a designated waker, or its
 * word is not 0 any more, as it was woken. */
static bool mutex_enter(struct near_mutex *m, struct near__waiter *w, enum taker as,
			uint32_t *before)
{
	struct near__bucket *b = near__lot_lock(m);
	bool announced = mutex_announce(m, as, before);

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
		if (mutex_take(m, &seen, as) ||
		    (as == DESIGNATED_WAKER && take_after_spinning(m, seen, as)))
			return 0;
		if (r)
			return r;
		if (!mutex_enter(m, w, as, &before))
			continue;
		r = sleep_until_designated(w, as, before, timeout);
		as = r ? INSISTING : DESIGNATED_WAKER;
	}
}

static int mutex_wait(struct near_mutex *m, uint32_t seen, const struct near__timeout *timeout)
{
	struct near__waiter w = {
		.address = m, .space = NEAR__SPACE_MUTEX, .kind = LOCKER, .check = check_holder};

	if (take_after_spinning(m, seen, ARRIVING))
		return 0;
	check_owner(m);
	w.since = (uint64_t)near__now(CLOCK_MONOTONIC);
	return take_after_yielding(m) ? 0 : take_after_parking(m, &w, ARRIVING, timeout);
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
		near__probe(NEAR__PROBE_WAIT, m, 0);
		near__probe(NEAR__PROBE_LOCK_WAIT, m,
			    owner_of(NEAR__LOAD_RELAXED(&m->word)) >> NEAR__OWNER_SHIFT);
		r = mutex_wait(m, seen, timeout);
		near__probe(NEAR__PROBE_LOCK_END, m, (uint64_t)r);
		near__probe(NEAR__PROBE_LOCKED, m, (uint64_t)r);
		if (!r)
			near__tuning_after_wait(m);
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

/* Relaxed: it orders nothing; every thread that changes the word checks all flags. */
void near__mutex_set_awaited(struct near_mutex *m)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);

	while (!NEAR__CAS(&m->word, &seen, word_compose(owner_of(seen), flags_of(seen) | AWAITED),
			  __ATOMIC_RELAXED))
		;
}

/* ---- unlock ---- */

/* The waiters in the queue. */
struct survey {
	struct near__waiter *locker, *awaiter; /* the first; the first with a true condition */
	unsigned lockers, awaiters;            /* counted as far as it matters */
};

static bool is_true(struct near__waiter *awaiter)
{
	if (!awaiter->condition(awaiter->arg))
		awaiter->true_since = 0;
	else if (!awaiter->true_since)
		awaiter->true_since = (uint64_t)near__now(CLOCK_MONOTONIC);
	return awaiter->true_since;
}

static struct survey mutex_survey(struct near__bucket *b, const struct near_mutex *m,
				  uint32_t flags)
{
	struct near__waiter *w = near__lot_first(b, m, NEAR__SPACE_MUTEX);
	struct survey s = {NULL, NULL, 0, 0};

	for (; w; w = near__lot_next(w)) {
		if (w->kind == LOCKER) {
			s.locker = s.lockers++ ? s.locker : w;
		} else {
			s.awaiters++;
			if (!s.awaiter && is_true(w))
				s.awaiter = w;
		}
		if (s.lockers > 1 && (!(flags & AWAITED) || (s.awaiter && s.awaiters > 1)))
			break;
	}
	return s;
}

/* Compares the first of both kinds. A waiter for a condition waits for the mutex since the
 * condition was found true: neither kind keeps the other waiting for long. */
static bool locker_comes_first(const struct near__bucket *b, const struct survey *s, bool fair)
{
	if (!s->locker || !(fair || near__lot_is_due(b, s->locker)))
		return false;
	return !s->awaiter || s->locker->since <= s->awaiter->true_since;
}

/* What an unlock does. */
struct plan {
	struct near__waiter *taken; /* NULL: none */
	bool reserves;              /* the mutex for it */
	uint32_t next;              /* of the word */
};

/* Under the bucket's lock. Prefers an old waiter, then one with a true condition, then any, unless
 * there is a designated waker already. */
static struct plan mutex_plan(struct near__bucket *b, const struct near_mutex *m, uint32_t seen,
			      bool fair)
{
	uint32_t flags = flags_of(seen);
	struct survey s = mutex_survey(b, m, flags);
	struct plan p = {NULL, true, 0};

	if (locker_comes_first(b, &s, fair)) {
		p.taken = s.locker;
	} else if (s.awaiter) {
		p.taken = s.awaiter;
	} else if (s.locker && !(flags & WAKING)) {
		p.taken = s.locker;
		p.reserves = false;
	}
	s.lockers -= p.taken && p.taken == s.locker;
	s.awaiters -= p.taken && p.taken == s.awaiter;
	flags &= WAKING | ATOMIC_UNLOCK;
	if (p.taken)
		flags |= p.reserves ? WAKING | RESERVED : WAKING;
	p.next = word_compose(0, flags | (s.lockers ? PARKED : 0) | (s.awaiters ? AWAITED : 0));
	return p;
}

static void unlock_by_queue(struct near_mutex *m, bool fair)
{
	struct near__bucket *b = near__lot_lock(m);
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);
	struct plan p;

	do {
		p = mutex_plan(b, m, seen, fair);
		NEAR__TSAN_RELEASE(m); /* after the calls of the conditions */
	} while (!NEAR__CAS(&m->word, &seen, p.next, __ATOMIC_RELEASE));
	/* From here on the mutex may be freed; only its address is used. */
	if (p.taken) {
		p.taken->token = DESIGNATED;
		if (p.reserves && p.taken->kind == LOCKER && !fair)
			near__lot_note_handover(b, p.taken);
		near__lot_take(b, p.taken);
	}
	near__lot_unlock(b);
	near__mutex_wake(m, p.taken);
}

/* Whether there is an owner whose unlock searches the queue, given that there is a waiter. */
static bool will_search_queue(uint32_t word)
{
	return owner_of(word) && !(flags_of(word) & WAKING);
}

/* A thread that unlocks to wait for its condition is in the queue itself. */
static struct near__waiter *first_of_others(struct near__bucket *b, const struct near_mutex *m)
{
	struct near__waiter *w = near__lot_first(b, m, NEAR__SPACE_MUTEX);

	return w && w->owner == near__owner_now() ? near__lot_next(w) : w;
}

/* The next waiter may be one for a condition, which may be false: this thread must not call it, but
 * the waiter does, and then its unlock searches the queue. */
void near__mutex_wake(const struct near_mutex *m, struct near__waiter *taken)
{
	while (!near__lot_wake(taken)) {
		struct near__bucket *b = near__lot_lock(m);

		taken = first_of_others(b, m);
		if (taken && will_search_queue(NEAR__LOAD_RELAXED(&m->word)))
			taken = NULL;
		if (taken) {
			taken->token = DESIGNATED;
			near__lot_take(b, taken);
		}
		near__lot_unlock(b);
	}
}

static bool must_search_queue(uint32_t flags, bool fair)
{
	if (flags & AWAITED)
		return true;
	return flags & PARKED && (fair || !(flags & WAKING) || near__tuning_is_time_to_search());
}

static void mutex_unlock(struct near_mutex *m, uint32_t seen, bool fair)
{
	uint32_t flags;

	do {
		flags = flags_of(seen);
		if (must_search_queue(flags, fair)) {
			unlock_by_queue(m, fair);
			return;
		}
		if (flags == ATOMIC_UNLOCK && near__tuning_has_paid_for_fence())
			flags = 0;
		NEAR__TSAN_RELEASE(m);
		/* Release: pairs with the acquire of the thread that takes the mutex next. */
	} while (!NEAR__CAS(&m->word, &seen, word_compose(0, flags), __ATOMIC_RELEASE));
}

void near__mutex_unlocked(const struct near_mutex *m)
{
	near__tuning_after_unlock(m);
}

__attribute__((noinline)) void near__mutex_unlock(struct near_mutex *m)
{
	near_mutex_unlock(m);
}

void near__mutex_unlock_slow(struct near_mutex *m, bool fair)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);

	near__thread_live(); /* whether the next unlocks need to try a sequence */
	check_alive(seen);
	if (!owner_of(seen))
		near__die("near_mutex_unlock: the mutex is not held");
	if (!near__owner_is_me(owner_of(seen)))
		near__die("near_mutex_unlock: another thread holds the mutex");
	near__lockdep_unlocked(m);
	mutex_unlock(m, seen, fair);
	near__tuning_after_unlock(m);
}

/* ---- waiters of condition variables ---- */

/* Designates `first` if the mutex is free and has no designated waker: returns it. Else sets
 * PARKED. False in *done: an owner's sequence stored 0 over PARKED. */
static struct near__waiter *mutex_designate(struct near_mutex *m, struct near__waiter *first,
					    uint32_t others, bool *done)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word), next, flags;
	struct near__waiter *taken;

	do {
		uint32_t owner = owner_of(seen);

		flags = flags_of(seen);
		taken = owner || flags & WAKING ? NULL : first;
		next = taken ? word_compose(0,
					    (flags & (AWAITED | ATOMIC_UNLOCK)) | WAKING | others)
			     : word_compose(owner, flags | PARKED | first_flags(flags));
	} while (!NEAR__CAS(&m->word, &seen, next, __ATOMIC_RELAXED));
	*done = taken || flags || fence_owner(m);
	return taken;
}

/* It calls no condition, for which the caller would have to hold the mutex. */
struct near__waiter *near__mutex_admit(struct near__bucket *b, struct near_mutex *m)
{
	struct near__waiter *w = near__lot_first(b, m, NEAR__SPACE_MUTEX), *first = NULL, *taken;
	uint32_t others = 0;
	bool done;

	for (; w && !others; w = near__lot_next(w))
		if (w->kind == LOCKER && !first)
			first = w;
		else if (w->kind == LOCKER)
			others = PARKED;
	do
		taken = mutex_designate(m, first, others, &done);
	while (!done);
	if (taken) {
		taken->token = DESIGNATED;
		near__lot_take(b, taken);
	}
	return taken;
}

void near_mutex_unlock_fair(struct near_mutex *m)
{
	near__mutex_unlock_slow(m, true);
}

void near_mutex_destroy(struct near_mutex *m)
{
	struct near__bucket *b = near__lot_lock(m);
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);
	bool in_use = owner_of(seen) || flags_of(seen) & WAKING ||
		      near__lot_first(b, m, NEAR__SPACE_MUTEX) ||
		      !__atomic_compare_exchange_n(&m->word, &seen, DESTROYED, false,
						   __ATOMIC_RELAXED, __ATOMIC_RELAXED);

	near__lot_unlock(b);
	check_alive(seen);
	if (in_use)
		near__die("near_mutex_destroy: the mutex is held, or waited for");
	near__lockdep_destroyed(m);
}
