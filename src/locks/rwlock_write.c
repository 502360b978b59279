/* SPDX-License-Identifier: MIT */
/* near_rwlock: writers; src/locks/rwlock.h has the argument. */
#include "base/spin.h"
#include "locks/lockdep.h"
#include "locks/mutex_at.h"
#include "locks/rwlock.h"

#include <errno.h>

/* ---- claim, drain ---- */

uint64_t near__rwlock_claim(struct near_rwlock *l)
{
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word), next;

	do
		next = (seen & ~(WORD_READS_MAX * WORD_READ)) + WRITER;
	/* Acquire: pairs with the releases of readers and of the writer before. */
	while (!NEAR__CAS(&l->word, &seen, next, __ATOMIC_ACQUIRE));
	return next;
}

/* Acquire: pairs with the releases of the readers that were still inside at the claim. */
static bool has_drained(struct near_rwlock *l)
{
	return is_drained(__atomic_load_n(&l->word, __ATOMIC_ACQUIRE));
}

static bool drain_by_spinning(struct near_rwlock *l)
{
	return NEAR__SPIN_UNTIL(has_drained(l)) || NEAR__YIELD_UNTIL(has_drained(l));
}

/* Enters the queue if a thread is still inside, which wakes this one as it leaves. */
static bool enter_queue(struct near_rwlock *l, struct near__waiter *w)
{
	struct near__bucket *b = near__lot_lock(l);
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word);
	bool still;

	do
		still = !is_drained(seen);
	while (still && !(seen & WRITER_WAITING) &&
	       !NEAR__CAS(&l->word, &seen, seen | WRITER_WAITING, __ATOMIC_RELAXED));
	if (still)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return still;
}

static int drain_by_sleeping(struct near_rwlock *l, const struct near__timeout *timeout)
{
	struct near__waiter w = {
		.address = l, .space = NEAR__SPACE_RWLOCK, .kind = SLEEPING_WRITER};
	int r = 0;

	while (!has_drained(l)) {
		if (r)
			return r;
		if (NEAR__LOAD_RELAXED(&l->word) & LOST_READERS)
			near__die("near_rwlock_write_lock: a reader is a thread of the parent "
				  "process, which the fork did not copy");
		if (enter_queue(l, &w))
			r = near__lot_sleep(&w, timeout);
	}
	return 0;
}

/* ---- leave ---- */

/* Takes all readers out of the queue; *n: how many. They are linked by `next`. */
static struct near__waiter *take_readers(struct near__bucket *b, struct near_rwlock *l, uint64_t *n)
{
	struct near__waiter *w = near__lot_first(b, l, NEAR__SPACE_RWLOCK), *next;
	struct near__taken taken = {.first = NULL, .end = &taken.first};

	for (*n = 0; w; w = next) {
		next = near__lot_next(w);
		if (w->kind != SLEEPING_READER)
			continue;
		near__lot_take_into(&taken, b, w);
		++*n;
	}
	return taken.first;
}

/* Release: pairs with the acquire of readers that enter by the word; near__lot_wake has its own.
 * `flags` are cleared. */
static void leave_by_queue(struct near_rwlock *l, uint64_t readers, uint64_t flags)
{
	struct near__bucket *b = near__lot_lock(l);
	uint64_t n, seen = NEAR__LOAD_RELAXED(&l->word), next;
	struct near__waiter *taken = take_readers(b, l, &n);
	bool wake;

	do {
		next = (seen & ~flags) - WRITER + (readers + n) * READER;
		wake = ends_drain(&next);
	} while (!NEAR__CAS(&l->word, &seen, next, __ATOMIC_RELEASE));
	/* From here on the lock may be freed; only its address is used. */
	near__lot_unlock(b);
	near__lot_wake_all(taken);
	if (wake)
		near__rwlock_wake_writer(l);
}

void near__rwlock_leave(struct near_rwlock *l, uint64_t readers)
{
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word), next;
	bool wake;

	do {
		if (seen & PARKED) {
			leave_by_queue(l, readers, PARKED);
			return;
		}
		next = seen - WRITER + readers * READER;
		wake = ends_drain(&next);
	} while (!NEAR__CAS(&l->word, &seen, next, __ATOMIC_RELEASE));
	if (wake)
		near__rwlock_wake_writer(l);
}

/* ---- write lock ---- */

/* Unlocks the mutex last: until then no other writer claims, and WRITER_WAITING is this writer's.
 * If the writer before has not left, that one admits the readers: it must not find the lock freed
 * by one of them. */
static void give_up(struct near_rwlock *l)
{
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word);

	for (;;) {
		if (seen & PARKED && writers_of(seen) == 1) {
			leave_by_queue(l, 0, PARKED | WRITER_WAITING);
			break;
		}
		/* Relaxed: it has done nothing. */
		if (NEAR__CAS(&l->word, &seen, (seen & ~WRITER_WAITING) - WRITER, __ATOMIC_RELAXED))
			break;
	}
	near__mutex_release(&l->writers);
}

static int write_lock(struct near_rwlock *l, const struct near__timeout *timeout)
{
	uint64_t word = near__rwlock_claim(l);
	int r = 0, saved = errno;

	if (word & BIASED)
		near__rwlock_revoke(l);
	if (!is_drained(word) && !has_drained(l) && !drain_by_spinning(l))
		r = drain_by_sleeping(l, timeout);
	if (r)
		give_up(l);
	else
		NEAR__TSAN_ACQUIRE(l);
	errno = saved;
	return r;
}

static void check_for_writing(struct near_rwlock *l)
{
	near__rwlock_check(l);
	if (near__held(l) == NESTED)
		near__die("near_rwlock_write_lock: this thread holds the lock for reading");
	near__rwlock_check_writer(l, false);
}

/* The common case: nobody holds the lock or has a claim, and it has no bias. So this thread does
 * not hold it, either. */
static bool write_lock_free(struct near_rwlock *l)
{
	uint64_t seen = NEAR__LOAD_RELAXED(&l->word);

	if (seen & ~(WORD_READS_MAX * WORD_READ) || !near__rwlock_is_current(l) ||
	    near__mutex_fast(&l->writers))
		return false;
	/* Acquire: as in near__rwlock_claim. If a reader was first, this one waits for it. */
	if (!NEAR__CAS(&l->word, &seen, WRITER, __ATOMIC_ACQUIRE))
		write_lock(l, &NEAR__NO_TIMEOUT);
	else
		NEAR__TSAN_ACQUIRE(l);
	return true;
}

void near_rwlock_write_lock(struct near_rwlock *l)
{
	if (NEAR__LIKELY(write_lock_free(l)))
		return;
	check_for_writing(l);
	near__mutex_lock_at(&l->writers, NEAR__SITE);
	write_lock(l, &NEAR__NO_TIMEOUT);
}

int near_rwlock_write_lock_until(struct near_rwlock *l, int clock, const struct timespec *deadline,
				 struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	if (r)
		return r;
	check_for_writing(l);
	r = near__mutex_lock_timed_at(&l->writers, &timeout, NEAR__SITE);
	return r ? r : write_lock(l, &timeout);
}

/* The sum before the claim saves a thread that tries repeatedly the fences. It may count a reader
 * that moves between slots not at all, or twice, or give -1: then a reader was inside. */
bool near_rwlock_try_write_lock(struct near_rwlock *l)
{
	uint64_t word;

	near__rwlock_check(l);
	if (!near__mutex_try_lock_at(&l->writers, NEAR__SITE))
		return false;
	if (readers_of(NEAR__LOAD_RELAXED(&l->word)) + near__rwlock_sum(l, false)) {
		near__mutex_release(&l->writers);
		return false;
	}
	word = near__rwlock_claim(l);
	if (word & BIASED)
		near__rwlock_revoke(l);
	if (!has_drained(l)) {
		give_up(l);
		return false;
	}
	NEAR__TSAN_ACQUIRE(l);
	return true;
}

/* ---- write unlock ---- */

/* Unlocks the mutex first: the change of the word is the last access. */
static void end_writing(struct near_rwlock *l, uint64_t readers, const char *misuse)
{
	near__rwlock_check(l);
	if (!near_rwlock_is_mine(l))
		near__die(misuse);
	NEAR__TSAN_RELEASE(l);
	near__mutex_unlock(&l->writers);
	near__rwlock_leave(l, readers);
}

void near_rwlock_write_unlock(struct near_rwlock *l)
{
	end_writing(l, 0,
		    "near_rwlock_write_unlock: this thread does not hold the lock for writing");
}

void near_rwlock_downgrade(struct near_rwlock *l)
{
	end_writing(l, 1, "near_rwlock_downgrade: this thread does not hold the lock for writing");
	near__lockdep_locked(l, NEAR__SITE);
	near__held_add(l);
}

bool near_rwlock_is_mine(const struct near_rwlock *l)
{
	return near_mutex_is_mine(&l->writers);
}
