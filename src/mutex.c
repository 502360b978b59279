/* SPDX-License-Identifier: MIT */
/* The slow paths of near_mutex.
 *
 * One word: the owner (0: free), and bits that tell of those who wait in the parking lot.
 *
 *   PARKED   waiters for the mutex are in the queue, or about to enter it, or were
 *   WAKING   one of them, the chosen one, was taken from the queue and is on its way to the word
 *   AWAITED  waiters for a condition are in the queue, or were
 *
 * A bit that stands for nobody costs an unlock a look at the queue, which clears it. It must not be
 * the other way round. What keeps it so:
 *
 *   - A waiter enters the queue under the bucket's lock, if the word then has an owner and PARKED.
 *   - An unlock clears PARKED, or sets WAKING, under that lock alone, going by what is in the
 *     queue. A waiter that has set PARKED and waits for the lock finds it cleared and begins anew.
 *   - An unlock that finds PARKED without WAKING looks into the queue. So the word is never left
 *     free with somebody in the queue and nobody on the way.
 *   - Only the chosen one clears WAKING: as it takes the mutex; or, finding an owner, together with
 *     setting PARKED, to enter the queue again (by its age). There is an owner then with WAKING
 *     clear, and its unlock looks into the queue. The chosen one does not give up: a deadline that
 *     has passed ends its next sleep, when it is not chosen any more.
 *   - A waiter whom the mutex is handed is the owner before it is awake: the word never was free.
 *
 * An unlock accesses the mutex for the last time with the CAS that lets go of it. It still holds
 * the bucket's lock then, and a taken waiter, and neither stands in the mutex: so the memory may go
 * as soon as its last user's unlock has returned.
 *
 * Taking the mutex is an acquire, letting go of it a release, handing it over goes by the release
 * and acquire of near__lot_wake. All else is relaxed, as in src/lock.c: it is one word, or the
 * bucket's lock orders it.
 *
 * fork: bits of the parent's waiters mean nothing in the child, where the queues are empty; WAKING
 * would keep its sleepers from being woken. So bits carry the number of forks between this process
 * and the first, and those of another number are taken for none. Seven bits of it: the same number
 * comes again in a descendant of the 128th degree, with the word untouched since.
 *
 * models/mutex.pml is this file as a model. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lot.h"
#include "owner.h"

#define PARKED 1u
#define WAKING 2u
#define AWAITED 4u
#define FLAGS 7u
#define FORKS_SHIFT 3
#define OWNER NEAR__MUTEX_OWNER
#define DESTROYED UINT32_MAX
_Static_assert(NEAR__NO_OWNER == 1u << FORKS_SHIFT, "never in a word: a number without flags");

/* Tokens of those who wake. */
#define CHOSEN 1
#define HANDED 2

#define PATIENCE_NS 1000000

/* As in src/lock.c, where the numbers are explained. */
#define PAUSES 16
#define YIELDS 7

enum { LOCKER, AWAITER };

static uint32_t look(const struct near_mutex *m)
{
	return __atomic_load_n(&m->word, __ATOMIC_RELAXED);
}

/* Replaces *seen by next, or else brings *seen up to date. */
static bool change(struct near_mutex *m, uint32_t *seen, uint32_t next, int order)
{
	return __atomic_compare_exchange_n(&m->word, seen, next, true, order, __ATOMIC_RELAXED);
}

static uint32_t forks(void)
{
	return near__lot.forks << FORKS_SHIFT & ~(OWNER | FLAGS);
}

static uint32_t compose(uint32_t owner, uint32_t flags)
{
	return owner | flags | (flags ? forks() : 0);
}

static uint32_t owner_of(uint32_t word)
{
	return word & OWNER;
}

static uint32_t flags_of(uint32_t word)
{
	return (word & ~(OWNER | FLAGS)) == forks() ? word & FLAGS : 0;
}

/* ---- lock ---- */

static void check_alive(uint32_t word)
{
	if (word == DESTROYED)
		near__die("near_mutex: the mutex was destroyed");
}

bool near__mutex_try_lock_slow(struct near_mutex *m)
{
	uint32_t me = near__owner_now(), seen = look(m);

	while (!owner_of(seen))
		if (change(m, &seen, compose(me, flags_of(seen)), __ATOMIC_ACQUIRE))
			return true;
	check_alive(seen);
	return false;
}

/* Of one that is held: by whom must it not be, if this thread is to wait for it? */
static void check_owner(uint32_t owner)
{
	if (!owner)
		return;
	if (near__owner_is_me(owner))
		near__die("near_mutex_lock: this thread holds the mutex already");
	near__owner_check(owner);
}

static bool take_after_spinning(struct near_mutex *m)
{
	for (int i = 0; i < PAUSES; i++)
		near__pause();
	return near__mutex_try_lock_slow(m);
}

static bool take_after_yielding(struct near_mutex *m)
{
	for (int i = 0; i < YIELDS; i++) {
		syscall(SYS_sched_yield);
		if (near__mutex_try_lock_slow(m))
			return true;
	}
	return false;
}

/* Enters the queue if there still is an owner who will look there; `again`: by its age. */
static bool enter(struct near_mutex *m, struct near__waiter *w, bool again)
{
	struct near__bucket *b = near__lot_lock(m);
	uint32_t seen = look(m);
	bool still = owner_of(seen) && flags_of(seen) & PARKED;

	if (still && again)
		near__lot_insert(b, w);
	else if (still)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return still;
}

enum step { TAKEN, GIVEN_UP, ANNOUNCED };

/* Takes a free mutex. Else announces a sleep, or gives up if it is the `last` try. */
static enum step try_or_announce(struct near_mutex *m, bool chosen, bool last)
{
	uint32_t me = near__owner_now(), seen = look(m);

	for (;;) {
		uint32_t owner = owner_of(seen), flags = flags_of(seen);

		flags &= chosen ? ~WAKING : FLAGS;
		if (!owner) {
			if (change(m, &seen, compose(me, flags), __ATOMIC_ACQUIRE))
				return TAKEN;
		} else if (last) {
			return GIVEN_UP;
		} else {
			uint32_t next = compose(owner, flags | PARKED);

			if (next == seen || change(m, &seen, next, __ATOMIC_RELAXED))
				return ANNOUNCED;
		}
	}
}

static int take_after_parking(struct near_mutex *m, uint64_t since, const struct near__limit *l)
{
	struct near__waiter w = {
		.address = m,
		.space = NEAR__SPACE_MUTEX,
		.kind = LOCKER,
		.owner = near__owner_now(),
		.since = since,
	};
	bool chosen = false, again = false;
	int r = 0;

	for (;;) {
		enum step step = try_or_announce(m, chosen, r != 0);

		if (step != ANNOUNCED)
			return step == TAKEN ? 0 : r;
		again |= chosen;
		chosen = false;
		if (!enter(m, &w, again))
			continue;
		r = near__lot_sleep(&w, l);
		if (!r && w.token == HANDED)
			return 0;
		chosen = !r;
	}
}

static int lock_slow(struct near_mutex *m, const struct near__limit *l)
{
	uint64_t since;

	if (near__mutex_try_lock_slow(m))
		return 0;
	check_owner(owner_of(look(m)));
	if (take_after_spinning(m))
		return 0;
	since = (uint64_t)near__now(CLOCK_MONOTONIC);
	return take_after_yielding(m) ? 0 : take_after_parking(m, since, l);
}

void near__mutex_lock_slow(struct near_mutex *m)
{
	lock_slow(m, &NEAR__NO_LIMIT);
}

int near_mutex_lock_until(struct near_mutex *m, clockid_t clock, const struct timespec *deadline,
			  struct near_cancel *cancel)
{
	struct near__limit l;
	int r = near__limit_set(&l, clock, deadline, cancel);

	if (r || near__mutex_fast(m))
		return r;
	return lock_slow(m, &l);
}

/* ---- unlock ---- */

/* Who stands in the queue. */
struct survey {
	struct near__waiter *locker, *awaiter; /* the first; the first whose condition is true */
	unsigned lockers, awaiters;            /* counted up to what matters */
};

static struct survey survey(struct near__bucket *b, const struct near_mutex *m, uint32_t flags)
{
	struct near__waiter *w = near__lot_first(b, m, NEAR__SPACE_MUTEX);
	struct survey s = {NULL, NULL, 0, 0};

	for (; w; w = near__lot_next(w)) {
		if (w->kind == LOCKER) {
			s.locker = s.lockers++ ? s.locker : w;
		} else {
			s.awaiters++;
			if (!s.awaiter && w->condition(w->arg))
				s.awaiter = w;
		}
		if (s.lockers > 1 && (!(flags & AWAITED) || (s.awaiter && s.awaiters > 1)))
			break;
	}
	return s;
}

static bool is_old(const struct near__waiter *w)
{
	return (uint64_t)near__now(CLOCK_MONOTONIC) - w->since > PATIENCE_NS;
}

/* What an unlock does. */
struct plan {
	struct near__waiter *taken; /* NULL: nobody */
	uint32_t token;
	uint32_t next; /* of the word */
};

/* An old waiter comes first, then one whose condition is true, then any; unless one is on its way
 * already. Under the bucket's lock. */
static struct plan plan(struct near__bucket *b, const struct near_mutex *m, uint32_t seen,
			bool fair)
{
	uint32_t flags = flags_of(seen), owner = 0;
	struct survey s = survey(b, m, flags);
	struct plan p = {NULL, HANDED, 0};

	if (s.locker && (fair || is_old(s.locker))) {
		p.taken = s.locker;
	} else if (s.awaiter) {
		p.taken = s.awaiter;
	} else if (s.locker && !(flags & WAKING)) {
		p.taken = s.locker;
		p.token = CHOSEN;
		flags |= WAKING;
	}
	if (p.taken && p.token == HANDED)
		owner = p.taken->owner;
	s.lockers -= p.taken && p.taken == s.locker;
	s.awaiters -= p.taken && p.taken == s.awaiter;
	flags &= WAKING;
	p.next = compose(owner, flags | (s.lockers ? PARKED : 0) | (s.awaiters ? AWAITED : 0));
	return p;
}

static void unlock_by_queue(struct near_mutex *m, bool fair)
{
	struct near__bucket *b = near__lot_lock(m);
	uint32_t seen = look(m);
	struct plan p;

	do
		p = plan(b, m, seen, fair);
	while (!change(m, &seen, p.next, __ATOMIC_RELEASE));
	/* From here on the mutex may be gone; its address is only a name. */
	if (p.taken) {
		p.taken->token = p.token;
		near__lot_take(b, p.taken);
	}
	near__lot_unlock(b);
	if (p.taken)
		near__lot_wake(p.taken);
}

static bool must_look_into_queue(uint32_t flags, bool fair)
{
	return flags & AWAITED || (flags & PARKED && (fair || !(flags & WAKING)));
}

void near__mutex_unlock_slow(struct near_mutex *m, bool fair)
{
	uint32_t seen = look(m);

	check_alive(seen);
	if (!owner_of(seen))
		near__die("near_mutex_unlock: the mutex is not held");
	if (!near__owner_is_me(owner_of(seen)))
		near__die("near_mutex_unlock: another thread holds the mutex");
	do {
		if (must_look_into_queue(flags_of(seen), fair)) {
			unlock_by_queue(m, fair);
			return;
		}
		/* Release: pairs with the acquire of whoever takes the mutex next. */
	} while (!change(m, &seen, compose(0, flags_of(seen)), __ATOMIC_RELEASE));
}

void near_mutex_unlock_fair(struct near_mutex *m)
{
	near__mutex_unlock_slow(m, true);
}

/* ---- await ---- */

bool near_mutex_is_mine(const struct near_mutex *m)
{
	uint32_t seen = look(m);

	return seen != DESTROYED && owner_of(seen) && near__owner_is_me(owner_of(seen));
}

static void announce_awaiter(struct near_mutex *m)
{
	uint32_t seen = look(m);

	while (!change(m, &seen, compose(owner_of(seen), flags_of(seen) | AWAITED),
		       __ATOMIC_RELAXED))
		;
}

/* This thread holds the mutex while it enters the queue, so an unlock that comes later finds it
 * there; and while it leaves the queue for good. */
static int await(struct near_mutex *m, bool (*condition)(void *), void *arg,
		 const struct near__limit *l)
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
		announce_awaiter(m);
		b = near__lot_lock(m);
		near__lot_append(b, &w);
		near__lot_unlock(b);
		near_mutex_unlock(m);
		r = near__lot_sleep(&w, l);
		if (!r)
			return 0; /* handed the mutex, by one who found the condition true */
		near_mutex_lock(m);
	}
	return 0;
}

int near_mutex_await_until(struct near_mutex *m, bool (*condition)(void *arg), void *arg,
			   clockid_t clock, const struct timespec *deadline,
			   struct near_cancel *cancel)
{
	struct near__limit l;
	int r = near__limit_set(&l, clock, deadline, cancel);

	if (!near_mutex_is_mine(m))
		near__die("near_mutex_await: this thread does not hold the mutex");
	return r ? r : await(m, condition, arg, &l);
}

void near_mutex_await(struct near_mutex *m, bool (*condition)(void *arg), void *arg)
{
	near_mutex_await_until(m, condition, arg, CLOCK_MONOTONIC, NULL, NULL);
}

/* ---- the end ---- */

void near_mutex_destroy(struct near_mutex *m)
{
	struct near__bucket *b = near__lot_lock(m);
	uint32_t seen = look(m);
	bool in_use = owner_of(seen) || flags_of(seen) & WAKING ||
		      near__lot_first(b, m, NEAR__SPACE_MUTEX) ||
		      !change(m, &seen, DESTROYED, __ATOMIC_RELAXED);

	near__lot_unlock(b);
	check_alive(seen);
	if (in_use)
		near__die("near_mutex_destroy: the mutex is held, or waited for");
}
