/* SPDX-License-Identifier: MIT */
/* near_mutex: unlock, and destroy; src/locks/mutex.h has the argument. */
#include "mutex.h"
#include "hold_time.h"
#include "slice.h"

/* A thread searches the queue at one of this many unlocks while there is a designated waker. A
 * search costs some 100 ns, an unlock 10. */
#define UNLOCKS_PER_SEARCH 32

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

static struct survey survey(struct near__bucket *b, const struct near_mutex *m, uint32_t flags)
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
static struct plan plan(struct near__bucket *b, const struct near_mutex *m, uint32_t seen,
			bool fair)
{
	uint32_t flags = flags_of(seen);
	struct survey s = survey(b, m, flags);
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
	p.next = compose(0, flags | (s.lockers ? PARKED : 0) | (s.awaiters ? AWAITED : 0));
	return p;
}

static void unlock_by_queue(struct near_mutex *m, bool fair)
{
	struct near__bucket *b = near__lot_lock(m);
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);
	struct plan p;

	do {
		p = plan(b, m, seen, fair);
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

/* The number of unlocks with ATOMIC_UNLOCK that pay for a fence; 1: the flag is never set. A fence
 * interrupts each CPU that runs a thread of the process, for about 1 us. ATOMIC_UNLOCK costs an
 * unlock about 10 ns more. With two CPUs, the fence is needed for the other one anyway. */
#define UNLOCKS_PER_CPU 100
#define FEW_CPUS 2

/* Relaxed: all threads find the same. */
static uint32_t unlocks_per_fence(void)
{
	uint32_t n = __atomic_load_n(&near__locks.unlocks_per_fence, __ATOMIC_RELAXED);

	if (!n && near__process_init()) {
		n = near__process.cpus <= FEW_CPUS ? 1 : near__process.cpus * UNLOCKS_PER_CPU;
		__atomic_store_n(&near__locks.unlocks_per_fence, n, __ATOMIC_RELAXED);
	}
	return n;
}

uint32_t near__mutex_first_flags(uint32_t flags)
{
	return !flags && unlocks_per_fence() > 1 ? ATOMIC_UNLOCK : 0;
}

/* Called at an unlock with ATOMIC_UNLOCK alone: whether the flag is cleared. A thread without a
 * block leaves that to others. */
static bool has_paid_for_fence(void)
{
	struct near__locks_thread *mine = near__locks_thread_own();

	if (mine && ++mine->atomic_unlocks < unlocks_per_fence())
		return false;
	if (mine)
		mine->atomic_unlocks = 0;
	return mine;
}

bool near__mutex_fence_owner(const struct near_mutex *m)
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

/* Designates `first` if the mutex is free and has no designated waker: returns it. Else sets
 * PARKED. False in *done: an owner's sequence stored 0 over PARKED. */
static struct near__waiter *designate(struct near_mutex *m, struct near__waiter *first,
				      uint32_t others, bool *done)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word), next, flags;
	struct near__waiter *taken;

	do {
		uint32_t owner = owner_of(seen);

		flags = flags_of(seen);
		taken = owner || flags & WAKING ? NULL : first;
		next = taken ? compose(0, (flags & (AWAITED | ATOMIC_UNLOCK)) | WAKING | others)
			     : compose(owner, flags | PARKED | near__mutex_first_flags(flags));
	} while (!NEAR__CAS(&m->word, &seen, next, __ATOMIC_RELAXED));
	*done = taken || flags || near__mutex_fence_owner(m);
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
		taken = designate(m, first, others, &done);
	while (!done);
	if (taken) {
		taken->token = DESIGNATED;
		near__lot_take(b, taken);
	}
	return taken;
}

/* With a designated waker: it may take long to run, and the other waiters grow old. A thread
 * without a block searches at each. */
static bool is_time_to_search(void)
{
	struct near__locks_thread *mine = near__locks_thread_own();

	return !mine || ++mine->unlocks % UNLOCKS_PER_SEARCH == 0;
}

static bool must_search_queue(uint32_t flags, bool fair)
{
	if (flags & AWAITED)
		return true;
	return flags & PARKED && (fair || !(flags & WAKING) || is_time_to_search());
}

static void unlock(struct near_mutex *m, uint32_t seen, bool fair)
{
	uint32_t flags;

	do {
		flags = flags_of(seen);
		if (must_search_queue(flags, fair)) {
			unlock_by_queue(m, fair);
			return;
		}
		if (flags == ATOMIC_UNLOCK && has_paid_for_fence())
			flags = 0;
		NEAR__TSAN_RELEASE(m);
		/* Release: pairs with the acquire of the thread that takes the mutex next. */
	} while (!NEAR__CAS(&m->word, &seen, compose(0, flags), __ATOMIC_RELEASE));
}

static void spend_budget(void)
{
	if (near__more.owner >= NEAR__EXPECTED)
		near__more.owner -= NEAR__EXPECTED;
}

void near__mutex_unlocked(const struct near_mutex *m)
{
	spend_budget();
	near__slice_end();
	near__hold_time_unlocked(m);
}

void near__mutex_unlock_slow(struct near_mutex *m, bool fair)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&m->word);

	spend_budget();
	near__thread_live(); /* whether the next unlocks need to try a sequence */
	check_alive(seen);
	if (!owner_of(seen))
		near__die("near_mutex_unlock: the mutex is not held");
	if (!near__owner_is_me(owner_of(seen)))
		near__die("near_mutex_unlock: another thread holds the mutex");
	near__lockdep_unlocked(m);
	unlock(m, seen, fair);
	near__slice_end();
	near__hold_time_unlocked(m);
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
