/* SPDX-License-Identifier: MIT */
/* How near_mutex is waited for; src/locks/mutex.h has the argument. */
#define _GNU_SOURCE
#include "mutex.h"
#include "mutex_at.h"
#include "pace.h"
#include "slice.h"
#include "ground/tsan.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks at the word after 2, 4 and 8 pauses. For a mutex that is taken again quickly (pace.h), one
 * look after so many that who has the line has used it often. */
#define FEWEST_PAUSES 2
#define MOST_PAUSES 8
#define PAUSES_IF_QUICK 64
#define YIELDS 7 /* as in src/ground/lock.c */

/* So many unlocks go by CAS after a wait for a mutex that is not. */
#define UNLOCKS_BY_CAS 64

static bool take_if_free(struct near_mutex *m)
{
	uint32_t me = near__owner_now(), seen = look(m);

	while (!owner_of(seen))
		if (change(m, &seen, compose(me, flags_of(seen)), __ATOMIC_ACQUIRE))
			return true;
	check_alive(seen);
	return false;
}

bool near__mutex_try_lock_at(struct near_mutex *m, const void *site)
{
	bool taken = take_if_free(m);

	if (taken) {
		NEAR__TSAN_ACQUIRE(m);
		near__order_locked(m, site);
	}
	return taken;
}

bool near__mutex_try_lock_slow(struct near_mutex *m)
{
	return near__mutex_try_lock_at(m, NEAR__SITE);
}

/* Of one that is held: by whom must it not be, if this thread is to wait for it? */
static void check_owner(const struct near_mutex *m)
{
	uint32_t owner = owner_of(look(m));

	if (owner && near__owner_is_me(owner))
		near__die("near_mutex_lock: this thread holds the mutex already");
	if (near__owner_was_left_behind(&m->word))
		near__die("near_mutex_lock: the holder is a thread of the parent process, "
			  "which the fork did not copy");
}

static void check_holder(struct near__waiter *w)
{
	const struct near_mutex *m = w->address;

	near__owner_check(&m->word, "near_mutex or near_rwlock: the holder, thread ");
}

static bool take_after_pauses(struct near_mutex *m, unsigned n)
{
	near__pauses(n);
	return take_if_free(m);
}

static bool take_after_spinning(struct near_mutex *m)
{
	if (near__pace_is_quick(m))
		return take_after_pauses(m, PAUSES_IF_QUICK);
	for (unsigned n = FEWEST_PAUSES; n <= MOST_PAUSES; n *= 2)
		if (take_after_pauses(m, n))
			return true;
	return false;
}

static bool take_after_yielding(struct near_mutex *m)
{
	for (int i = 0; i < YIELDS; i++) {
		syscall(SYS_sched_yield);
		if (take_if_free(m))
			return true;
	}
	return false;
}

/* Under the bucket's lock: PARKED stands in the word of an owner who will see it; `chosen`: WAKING
 * does no more. False: there is no owner, or there was one who stored a 0 over it. */
static bool announce(struct near_mutex *m, bool chosen)
{
	uint32_t seen = look(m), flags, next;

	do {
		flags = flags_of(seen);
		if (!owner_of(seen))
			return false;
		next = (chosen ? flags & ~WAKING : flags) | PARKED | near__mutex_with_first(flags);
	} while (!change(m, &seen, compose(owner_of(seen), next), __ATOMIC_RELAXED));
	return flags || near__mutex_is_told(m);
}

/* Enters the queue; `again`: by its age. */
static bool enter(struct near_mutex *m, struct near__waiter *w, bool chosen, bool again)
{
	struct near__bucket *b = near__lot_lock(m);
	bool announced = announce(m, chosen);

	if (announced && again)
		near__lot_insert(b, w);
	else if (announced)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return announced;
}

/* Takes the mutex if it is free. */
static bool try_take(struct near_mutex *m, bool chosen)
{
	uint32_t me = near__owner_now(), seen = look(m);

	while (!owner_of(seen)) {
		uint32_t flags = flags_of(seen);

		if (change(m, &seen, compose(me, chosen ? flags & ~WAKING : flags),
			   __ATOMIC_ACQUIRE))
			return true;
	}
	return false;
}

/* Waits in the queue of lockers until the mutex is taken or the limit is reached. `chosen`: the
 * waiter was in the queue, and is on its way. */
static int take_after_parking(struct near_mutex *m, struct near__waiter *w, bool chosen,
			      const struct near__limit *l)
{
	bool again = false;
	int r = 0;

	for (;;) {
		again |= chosen;
		if (try_take(m, chosen))
			return 0;
		if (r)
			return r;
		if (!enter(m, w, chosen, again))
			continue;
		r = near__lot_sleep(w, l);
		if (!r && w->token == HANDED)
			return 0;
		chosen = !r;
	}
}

static int wait(struct near_mutex *m, const struct near__limit *l)
{
	struct near__waiter w = {
		.address = m, .space = NEAR__SPACE_MUTEX, .kind = LOCKER, .check = check_holder};

	if (take_after_spinning(m))
		return 0;
	check_owner(m);
	w.since = (uint64_t)near__now(CLOCK_MONOTONIC);
	w.owner = near__owner_now();
	return take_after_yielding(m) ? 0 : take_after_parking(m, &w, false, l);
}

/* By the owner. Relaxed: who else changes the word now looks at all of it. */
static void set_bit(struct near_mutex *m, uint32_t bit)
{
	uint32_t seen = look(m);

	while (!change(m, &seen, compose(owner_of(seen), flags_of(seen) | bit), __ATOMIC_RELAXED))
		;
}

/* Which of the unlocks to come the library must see, or had better go by CAS. */
static void note_wait(const struct near_mutex *m)
{
	unsigned told = near__pace_waited(m);

	if (near__slice_begin() && !told)
		told = 1;
	if (!near__pace_is_quick(m))
		told = UNLOCKS_BY_CAS;
	if (near__owner != NEAR__NO_OWNER) /* else it is checked: the library sees all unlocks */
		near__owner = (uint32_t)near__owner | told * NEAR__EXPECTED;
}

static int lock_slow(struct near_mutex *m, uint32_t seen, const struct near__limit *l,
		     const void *site)
{
	int r = 0;

	/* This may be the thread's first call, and nothing but its name be missing; or it is
	 * checked. */
	if (seen == NEAR__NO_OWNER)
		near__thread_live();
	near__order_before_lock(m, site);
	/* If it was not free there is no look at the word before the pauses. */
	if (owner_of(seen) || !take_if_free(m)) {
		near__slice_end(); /* of another mutex, which this thread holds */
		r = wait(m, l);
		if (!r)
			note_wait(m);
	}
	if (!r) {
		NEAR__TSAN_ACQUIRE(m);
		near__order_locked(m, site);
	}
	return r;
}

void near__mutex_lock_slow(struct near_mutex *m, uint32_t seen)
{
	lock_slow(m, seen, &NEAR__NO_LIMIT, NEAR__SITE);
}

int near__mutex_lock_limited_at(struct near_mutex *m, const struct near__limit *l, const void *site)
{
	uint32_t seen = near__mutex_fast(m);

	if (seen)
		return lock_slow(m, seen, l, site);
	NEAR__TSAN_ACQUIRE(m);
	return 0;
}

void near__mutex_lock_at(struct near_mutex *m, const void *site)
{
	near__mutex_lock_limited_at(m, &NEAR__NO_LIMIT, site);
}

int near_mutex_lock_until(struct near_mutex *m, int clock, const struct timespec *deadline,
			  struct near_cancel *cancel)
{
	struct near__limit l;
	int r = near__limit_set(&l, clock, deadline, cancel);

	return r ? r : near__mutex_lock_limited_at(m, &l, NEAR__SITE);
}

void near__mutex_lock_woken(struct near_mutex *m, struct near__waiter *w)
{
	if (w->token == CHOSEN)
		take_after_parking(m, w, true, &NEAR__NO_LIMIT);
	NEAR__TSAN_ACQUIRE(m);
}

/* ---- await ---- */

bool near_mutex_is_mine(const struct near_mutex *m)
{
	uint32_t seen = look(m);

	return seen != DESTROYED && owner_of(seen) && near__owner_is_me(owner_of(seen));
}

/* This thread holds the mutex while it enters the queue, so an unlock that comes later finds it
 * there; and while it leaves the queue for good. */
static int await(struct near_mutex *m, bool (*condition)(void *), void *arg,
		 const struct near__limit *l, const void *site)
{
	struct near__waiter w = {
		.address = m,
		.space = NEAR__SPACE_MUTEX,
		.kind = AWAITER,
		.owner = near__owner_now(),
		.condition = condition,
		.arg = arg,
	};
	int r = 0;

	while (!condition(arg)) {
		struct near__bucket *b;

		if (r)
			return r;
		set_bit(m, AWAITED);
		b = near__lot_lock(m);
		near__lot_append(b, &w);
		near__lot_unlock(b);
		near__mutex_let_go(m);
		near__order_before_lock(m, site);
		r = near__lot_sleep(&w, l);
		if (!r) { /* handed the mutex, by one who found the condition true */
			near__order_locked(m, site);
			return 0;
		}
		near__mutex_lock_at(m, site);
	}
	return 0;
}

static void check_mine(const struct near_mutex *m)
{
	if (!near_mutex_is_mine(m))
		near__die("near_mutex_await: this thread does not hold the mutex");
}

int near_mutex_await_until(struct near_mutex *m, bool (*condition)(void *arg), void *arg, int clock,
			   const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__limit l;
	int r = near__limit_set(&l, clock, deadline, cancel);

	check_mine(m);
	return r ? r : await(m, condition, arg, &l, NEAR__SITE);
}

void near_mutex_await(struct near_mutex *m, bool (*condition)(void *arg), void *arg)
{
	check_mine(m);
	await(m, condition, arg, &NEAR__NO_LIMIT, NEAR__SITE);
}
