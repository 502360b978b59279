/* SPDX-License-Identifier: MIT */
/* near_rwlock: readers; src/locks/rwlock.h has the argument. */
#include "locks/rwlock.h"

#include <errno.h>

#include "base/spin.h"
#include "locks/lockdep.h"
#include "locks/locks_state.h"

/* ---- contention ---- */

/* Threads that enter and leave by the word take its line from each other: with empty sections two
 * of them together make a sixth of the sections that one makes alone. So a thread whose CAS failed,
 * or that found a writer, stays away from the word for AWAY_NS, in which another thread makes some
 * hundred sections; but only if it has entered at least once per SHORT_NS since it last did so. If
 * threads enter more rarely, it is worth more that their sections run in parallel.
 *
 * Million sections per second, empty ones of 8 threads, with 1, 10 and 100 writes in 1,000: 11, 11
 * and 14 if no thread stays away; 30, 33, 34 with 2 us; 44, 42, 38 with 4 us; 47, 44, 40 with 6 us
 * (Intel Xeon, Granite Rapids class, 2 CPUs). With sections of 100 ns and more it makes no
 * difference. */
#define SHORT_NS 300
#define AWAY_NS 6000

/* Pauses for `otherwise_ns` if it does not stay away. */
static void stay_away(unsigned otherwise_ns)
{
	struct near__locks_thread none = {0};
	struct near__recent *recent = &near__locks_thread_or(&none)->recent;
	int64_t now = near__now(CLOCK_MONOTONIC);
	bool is_short = now - recent->since < (int64_t)recent->entries * SHORT_NS;
	unsigned ns = is_short ? AWAY_NS : otherwise_ns;

	if (ns)
		near__pause_for(ns);
	recent->since = now + ns;
	recent->entries = 0;
}

/* A thread without a block has never stayed away. */
static void count_entry(void)
{
	if (NEAR__LIKELY(near__self.block != &near__no_block))
		near__locks_thread_peek()->recent.entries++;
}

/* ---- lock ---- */

/* Whether a reader enters although writers have claimed, none of which can be inside: the writer
 * waits for this thread, has not revoked yet, or waits for other readers. Only the word decides
 * that a reader sleeps, and while readers hold the lock only the policy "writers first" makes one
 * sleep. */
static bool may_enter(const struct near_rwlock *l, uint64_t word, enum near__nesting nesting)
{
	if (!writers_of(word) || nesting == NESTED)
		return true;
	if (nesting == NOT_NESTED && l->policy == NEAR_RWLOCK_WRITERS_FIRST)
		return false;
	return word & BIASED || readers_of(word) > 0;
}

/* Counts in the word unless it has to wait for a writer. */
static bool enter_by_word(struct near_rwlock *l, enum near__nesting nesting)
{
	uint32_t rebias = __atomic_load_n(&l->rebias_after, __ATOMIC_RELAXED);
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word), next;

	do {
		if (!may_enter(l, seen, nesting))
			return false;
		next = seen + READER;
		if (!(seen & (BIASED | WRITERS)) && word_reads_of(seen) < rebias)
			next += WORD_READ;
		/* Acquire: pairs with the release of the writer that left. */
	} while (!NEAR__CAS(&l->word, &seen, next, __ATOMIC_ACQUIRE));
	count_entry();
	if (rebias && word_reads_of(next) >= rebias)
		near__rwlock_restore_bias(l);
	return true;
}

static bool try_enter(struct near_rwlock *l, enum near__nesting nesting)
{
	return near__rwlock_count_on_slot(l, 1) || enter_by_word(l, nesting);
}

static bool enter_after_spinning(struct near_rwlock *l, enum near__nesting nesting)
{
	stay_away(NEAR__SPIN_NS);
	if (enter_by_word(l, nesting))
		return true;
	near__rwlock_check_writer(l, true);
	return NEAR__SPIN_UNTIL(enter_by_word(l, nesting)) ||
	       NEAR__YIELD_UNTIL(enter_by_word(l, nesting));
}

/* Enters the queue if there still is a writer, which searches the queue when it leaves. */
static bool enter_queue(struct near_rwlock *l, struct near__waiter *w, enum near__nesting nesting)
{
	struct near__bucket *b = near__lot_lock(l);
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word);
	bool still;

	do
		still = !may_enter(l, seen, nesting);
	while (still && !(seen & PARKED) &&
	       !NEAR__CAS(&l->word, &seen, seen | PARKED, __ATOMIC_RELAXED));
	if (still)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return still;
}

static bool check_writer(struct near__waiter *w)
{
	const struct near_rwlock *l = w->address;

	near__owner_check(&l->writers.word, "near_rwlock: the writer, thread ");
	return false;
}

/* 0: counted in the word. */
static int enter_by_sleeping(struct near_rwlock *l, enum near__nesting nesting,
			     const struct near__timeout *timeout)
{
	struct near__waiter w = {
		.address = l,
		.space = NEAR__SPACE_RWLOCK,
		.kind = SLEEPING_READER,
		.check = check_writer,
	};

	while (!enter_queue(l, &w, nesting))
		if (enter_by_word(l, nesting))
			return 0;
	return near__lot_sleep(&w, timeout);
}

static void begin_reading(struct near_rwlock *l, const void *site)
{
	near__lockdep_locked(l, site);
	near__held_add(l);
	NEAR__TSAN_ACQUIRE(l);
}

static __attribute__((noinline)) int
read_lock(struct near_rwlock *l, const struct near__timeout *timeout, const void *site)
{
	enum near__nesting nesting;
	int r = 0, saved = errno;

	near__rwlock_check(l);
	near__lockdep_before_lock(l, site);
	nesting = near__held(l);
	if (!try_enter(l, nesting) && !enter_after_spinning(l, nesting))
		r = enter_by_sleeping(l, nesting, timeout);
	if (!r)
		begin_reading(l, site);
	errno = saved;
	return r;
}

/* The common case while the lock has no bias: no flag, no writer, no bias to restore (the threshold
 * is 0 where there are no slots), and the thread's first hold names the lock. A lock that was at
 * this address before may have set that hold, hence the check of the forks. *raced: another thread
 * has changed the word. */
static inline bool enter_unbiased(struct near_rwlock *l, bool *raced)
{
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word),
		 rebias = __atomic_load_n(&l->rebias_after, __ATOMIC_RELAXED);

	if (near__more.reads.lock != (uintptr_t)l || !near__rwlock_is_current(l) ||
	    seen & (FLAGS | WRITERS) || (rebias && word_reads_of(seen) + 1 >= rebias))
		return false;
	/* Acquire: pairs with the release of the writer that left. */
	*raced = !NEAR__CAS(&l->word, &seen, seen + READER + (rebias ? WORD_READ : 0),
			    __ATOMIC_ACQUIRE);
	if (NEAR__UNLIKELY(*raced))
		return false;
	count_entry();
	near__more.reads.depth++;
	NEAR__TSAN_ACQUIRE(l);
	return true;
}

/* Apart, so that the common case saves no registers. */
static __attribute__((noinline)) void read_lock_again(struct near_rwlock *l, bool raced,
						      const void *site)
{
	if (raced) {
		stay_away(0);
		if (enter_unbiased(l, &raced))
			return;
	}
	read_lock(l, &NEAR__NO_TIMEOUT, site);
}

void near__rwlock_read_lock_slow(struct near_rwlock *l)
{
	bool raced = false;

	if (NEAR__UNLIKELY(!enter_unbiased(l, &raced)))
		read_lock_again(l, raced, NEAR__SITE);
}

int near_rwlock_read_lock_until(struct near_rwlock *l, int clock, const struct timespec *deadline,
				struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	return r ? r : read_lock(l, &timeout, NEAR__SITE);
}

bool near__rwlock_try_read_lock_slow(struct near_rwlock *l)
{
	near__rwlock_check(l);
	if (!try_enter(l, near__held(l)))
		return false;
	begin_reading(l, NEAR__SITE);
	return true;
}

/* ---- unlock ---- */

/* Release: pairs with the acquire of the writer that drains. */
static void leave_by_word(struct near_rwlock *l)
{
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word), next;
	bool wake;

	do {
		next = seen - READER;
		wake = ends_drain(&next);
	} while (!NEAR__CAS(&l->word, &seen, next, __ATOMIC_RELEASE));
	/* From here on the lock may be freed; only its address is used. */
	if (wake)
		near__rwlock_wake_writer(l);
}

static __attribute__((noinline)) void read_unlock(struct near_rwlock *l)
{
	near__rwlock_check(l);
	if (!near__held_remove(l))
		near__die("near_rwlock_read_unlock: this thread does not hold the lock for "
			  "reading");
	near__lockdep_unlocked(l);
	if (!near__rwlock_count_on_slot(l, -1))
		leave_by_word(l);
}

/* As enter_unbiased. Release: as in leave_by_word. */
void near__rwlock_read_unlock_slow(struct near_rwlock *l)
{
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word);

	NEAR__WATCHED_RELEASE(l); /* the inline path has notified ThreadSanitizer */
	if (near__more.reads.lock == (uintptr_t)l && near__more.reads.depth && !(seen & FLAGS) &&
	    NEAR__CAS(&l->word, &seen, seen - READER, __ATOMIC_RELEASE))
		near__more.reads.depth--;
	else
		read_unlock(l);
}
