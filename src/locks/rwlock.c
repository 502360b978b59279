/* SPDX-License-Identifier: MIT */
/* near_rwlock's readers, and how it begins and ends; src/locks/rwlock.h has the argument. */
#define _GNU_SOURCE
#include "order.h"
#include "rwlock.h"
#include "ground/tsan.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in src/ground/lock.c, where the numbers are explained. */
#define PAUSES 16
#define YIELDS 7

int near_rwlock_init(struct near_rwlock *l)
{
	return near_rwlock_init_with(l, NEAR_RWLOCK_READERS_FIRST);
}

int near_rwlock_init_with(struct near_rwlock *l, enum near_rwlock_policy policy)
{
	void *copies;
	int r;

	memset(l, 0, sizeof(*l));
	if (policy != NEAR_RWLOCK_READERS_FIRST && policy != NEAR_RWLOCK_WRITERS_FIRST)
		return -EINVAL;
	l->policy = policy;
	if (!near__process_init() || !near__process.usable)
		return 0;
	r = near_percpu_alloc(&copies, sizeof(struct copy), sizeof(struct copy));
	if (r)
		return r;
	l->copies = copies;
	l->word = BIASED;
	return 0;
}

/* Orphans do not keep a child from taking the lock apart. */
void near_rwlock_destroy(struct near_rwlock *l)
{
	struct near__bucket *b;
	uint64_t seen;
	bool in_use;

	near__rwlock_check(l);
	b = near__lot_lock(l);
	seen = look(l);
	in_use = writers_of(seen) || near__lot_first(b, l, NEAR__SPACE_RWLOCK) ||
		 (readers_of(seen) + near__rwlock_sum(l, false) && !(seen & ORPHANS));
	__atomic_store_n(&l->word, DESTROYED, __ATOMIC_RELAXED);
	near__lot_unlock(b);
	if (in_use)
		near__die("near_rwlock_destroy: the lock is held, or waited for");
	near__order_forget(l);
	near_percpu_free(l->copies);
	l->copies = NULL;
}

void near__rwlock_check_writer(const struct near_rwlock *l, bool for_reading)
{
	uint32_t owner = __atomic_load_n(&l->writers.word, __ATOMIC_RELAXED) & NEAR__MUTEX_OWNER;

	if (owner && near__owner_is_me(owner))
		near__die(for_reading ? "near_rwlock_read_lock: this thread holds the lock for "
					"writing"
				      : "near_rwlock_write_lock: this thread holds the lock "
					"already");
	if (near__owner_was_left_behind(&l->writers.word))
		near__die("near_rwlock: the writer is a thread of the parent process, "
			  "which the fork did not copy");
}

/* ---- read lock ---- */

/* Past a writer, which cannot be inside: it waits for this thread; or has not revoked yet; or for
 * other readers. The word alone decides that a reader sleeps, and while readers hold the lock they
 * sleep only for the policy: so no reader sleeps for another one where readers are first. */
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
	uint32_t calm = __atomic_load_n(&l->calm, __ATOMIC_RELAXED);
	uint64_t seen = look(l), next;

	do {
		if (!may_enter(l, seen, nesting))
			return false;
		next = seen + READER;
		if (!(seen & (BIASED | WRITERS)) && peace_of(seen) < calm)
			next += PEACE;
		/* Acquire: pairs with the release of the writer that left. */
	} while (!change(l, &seen, next, __ATOMIC_ACQUIRE));
	if (calm && peace_of(next) >= calm)
		near__rwlock_restore_bias(l);
	return true;
}

static bool try_enter(struct near_rwlock *l, enum near__nesting nesting)
{
	return near__rwlock_count_on_slot(l, 1) || enter_by_word(l, nesting);
}

static bool enter_after_spinning(struct near_rwlock *l, enum near__nesting nesting)
{
	near__pauses(PAUSES);
	if (enter_by_word(l, nesting))
		return true;
	near__rwlock_check_writer(l, true);
	for (int i = 0; i < YIELDS; i++) {
		syscall(SYS_sched_yield);
		if (enter_by_word(l, nesting))
			return true;
	}
	return false;
}

/* Goes to sleep if there still is a writer, who will look into the queue when it leaves. */
static bool enter_queue(struct near_rwlock *l, struct near__waiter *w, enum near__nesting nesting)
{
	struct near__bucket *b = near__lot_lock(l);
	uint64_t seen = look(l);
	bool still;

	do
		still = !may_enter(l, seen, nesting);
	while (still && !(seen & PARKED) && !change(l, &seen, seen | PARKED, __ATOMIC_RELAXED));
	if (still)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return still;
}

static void check_writer(struct near__waiter *w)
{
	const struct near_rwlock *l = w->address;

	near__owner_check(&l->writers.word, "near_rwlock: the writer, thread ");
}

/* 0: counted in the word. */
static int enter_by_sleeping(struct near_rwlock *l, enum near__nesting nesting,
			     const struct near__limit *limit)
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
	return near__lot_sleep(&w, limit);
}

static void begin_reading(struct near_rwlock *l, const void *site)
{
	near__order_locked(l, site);
	near__held_add(l);
	NEAR__TSAN_ACQUIRE(l);
}

static __attribute__((noinline)) int read_lock(struct near_rwlock *l,
					       const struct near__limit *limit, const void *site)
{
	enum near__nesting nesting;
	int r = 0, saved = errno;

	near__rwlock_check(l);
	near__order_before_lock(l, site);
	nesting = near__held(l);
	if (!try_enter(l, nesting) && !enter_after_spinning(l, nesting))
		r = enter_by_sleeping(l, nesting, limit);
	if (!r)
		begin_reading(l, site);
	errno = saved;
	return r;
}

/* The common case while the lock has no bias: no flag, no writer, no bias to come (calm is 0 where
 * there are no slots), and the thread's first hold names the lock; or another one that was here
 * before, hence the look at the forks. */
static bool enter_in_peace(struct near_rwlock *l)
{
	uint64_t seen = look(l), calm = __atomic_load_n(&l->calm, __ATOMIC_RELAXED);

	if (near__reads.holds[0].lock != (uintptr_t)l || !near__rwlock_is_adopted(l) ||
	    seen & (FLAGS | WRITERS) || (calm && peace_of(seen) + 1 >= calm))
		return false;
	/* Acquire: pairs with the release of the writer that left. */
	if (!change(l, &seen, seen + READER + (calm ? PEACE : 0), __ATOMIC_ACQUIRE))
		return false;
	near__reads.holds[0].depth++;
	NEAR__TSAN_ACQUIRE(l);
	return true;
}

void near__rwlock_read_lock_slow(struct near_rwlock *l)
{
	if (!enter_in_peace(l))
		read_lock(l, &NEAR__NO_LIMIT, NEAR__SITE);
}

int near_rwlock_read_lock_until(struct near_rwlock *l, int clock, const struct timespec *deadline,
				struct near_cancel *cancel)
{
	struct near__limit limit;
	int r = near__limit_set(&limit, clock, deadline, cancel);

	return r ? r : read_lock(l, &limit, NEAR__SITE);
}

bool near__rwlock_try_read_lock_slow(struct near_rwlock *l)
{
	near__rwlock_check(l);
	if (!try_enter(l, near__held(l)))
		return false;
	begin_reading(l, NEAR__SITE);
	return true;
}

/* ---- read unlock ---- */

/* Release: pairs with the acquire of the writer that drains. */
static void leave_by_word(struct near_rwlock *l)
{
	uint64_t seen = look(l), next;
	bool wake;

	do {
		next = seen - READER;
		wake = ends_drain(&next);
	} while (!change(l, &seen, next, __ATOMIC_RELEASE));
	/* From here on the lock may be gone; its address is only a name. */
	if (wake)
		near__rwlock_wake_drainer(l);
}

static __attribute__((noinline)) void read_unlock(struct near_rwlock *l)
{
	near__rwlock_check(l);
	if (!near__held_remove(l))
		near__die("near_rwlock_read_unlock: this thread does not hold the lock for "
			  "reading");
	near__order_unlocked(l);
	if (!near__rwlock_count_on_slot(l, -1))
		leave_by_word(l);
}

/* As enter_in_peace. Release: as in leave_by_word. */
void near__rwlock_read_unlock_slow(struct near_rwlock *l)
{
	uint64_t seen = look(l);

	NEAR__WATCHED_RELEASE(l); /* ThreadSanitizer was told inline */
	if (near__reads.holds[0].lock == (uintptr_t)l && near__reads.holds[0].depth &&
	    !(seen & FLAGS) && change(l, &seen, seen - READER, __ATOMIC_RELEASE))
		near__reads.holds[0].depth--;
	else
		read_unlock(l);
}
