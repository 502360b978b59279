/* SPDX-License-Identifier: MIT */
/* The slow paths of near_lock.
 *
 * One word, {count, bits}. count is the number of threads inside: the holder, and each waiter that
 * has announced itself. Waiters that still spin are not counted. Waiters sleep on bits alone, so an
 * arrival, which only changes count, makes no FUTEX_WAIT return.
 *
 *   {0, 0}                free
 *   {1, LOCKED}           held, no waiter announced
 *   {n, LOCKED}           held, n - 1 announced; the unlock must wake one of them
 *   {n, WAKING}           free, n announced; one of them is awake and will check the word
 *   {n, LOCKED | WAKING}  the same, but another thread took it; its unlock need not wake
 *   {n, 0}, n > 0         free, n announced, all awake: they came just after an unlock to {0, 0}
 *
 * WAKING is a promise: an announced waiter is awake, or about to be woken, and will check the word
 * before it sleeps. While it is set, unlocks wake no sleeper. These rules keep the promise:
 *
 *   - Only an unlock that leaves count above 0 sets WAKING, and it alone then calls FUTEX_WAKE. If
 *     no thread sleeps, all announced waiters are awake, and the next rule keeps them so.
 *   - No waiter falls asleep while WAKING is set: FUTEX_WAIT compares bits with LOCKED alone. A
 *     waiter that did could be the very one that was promised, and no unlock would wake any waiter
 *     again.
 *   - Only an announced waiter that is awake clears WAKING: as it takes the lock, or, finding the
 *     lock held, in order to sleep. Either way the lock is then held with WAKING clear, and that
 *     holder's unlock decides again.
 *   - count falls only in an unlock. So an announced waiter keeps the word from {0, 0} and
 *     {1, LOCKED} until it was inside itself, and no fast path can overlook it.
 *
 * A wake-up that comes late costs its sleeper one load of the word and no more. FUTEX_WAIT may
 * return for any reason (a signal, a wake-up meant for an earlier user of the address, bits that
 * changed): nothing is concluded from its result.
 *
 * All of this is one word, and the futex's bits are part of it. There is no pair of locations whose
 * order could be mistaken, hence no fence: the order of the changes to the word decides whether an
 * announcement came before an unlock (which sees count above 0 and wakes) or after it (and then the
 * waiter sees LOCKED gone, or held by a thread whose unlock will see the announcement). A lock is
 * an acquire, an unlock a release; all else is relaxed, as it only chooses the next step. Every
 * change is a read-modify-write, so the acquire pairs with the last unlock even if announcements
 * were made between the two (they continue its release sequence).
 *
 * models/lock.pml is this file as a model.
 */
#include <errno.h>
#include <sched.h>

#include <nearcpu/detail/arch/arch.h>
#include <nearcpu/lock.h>

#include "base/block.h"
#include "base/cas.h"
#include "base/compiler.h"
#include "base/die.h"
#include "base/futex.h"
#include "base/self.h"
#include "base/spin.h"
#include "base/tsan.h"

#define LOCKED NEAR__LOCK_LOCKED
#define WAKING NEAR__LOCK_WAKING
#define ONE NEAR__LOCK_ONE
#define ALONE NEAR__LOCK_ALONE

/* The half of the word that the kernel compares. Only its address is used here. */
static uint32_t *futex_of(struct near_lock *lock)
{
	return (uint32_t *)&lock->word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* The locks at which this thread is announced, the last one first: more than one if a signal
 * handler waits as well. */
struct announcement {
	const struct near_lock *lock;
	struct announcement *outer;
};
struct announcements {
	struct announcement *volatile last;
};
NEAR__BLOCK_PART(announcements, struct announcements, lock);

/* Volatile: a signal handler that forks, and the child's handler, read them in this thread. */
static void lock_announce(struct announcements *a, struct announcement *now)
{
	a->last = now;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The note exists from before the announcement until the lock is taken: in a child, a count that is
 * one too high makes its unlocks call FUTEX_WAKE, and one too low would become negative. A vfork
 * child makes no note: if it were killed here, the note would still point to its stack. */
static void take_after_sleeping(struct near_lock *lock, struct announcements *mine)
{
	struct announcement now = {lock, mine ? mine->last : NULL};
	uint64_t seen;

	if (mine)
		lock_announce(mine, &now);
	/* Relaxed: it orders nothing but itself, among the other changes of this word. */
	seen = __atomic_add_fetch(&lock->word, ONE, __ATOMIC_RELAXED);
	for (;;) {
		if (!(seen & LOCKED)) {
			if (NEAR__CAS(&lock->word, &seen, (seen | LOCKED) & ~WAKING,
				      __ATOMIC_ACQUIRE))
				break;
			continue;
		}
		if ((seen & WAKING) &&
		    !NEAR__CAS(&lock->word, &seen, seen & ~WAKING, __ATOMIC_RELAXED))
			continue;
		near__futex(futex_of(lock), NEAR__FUTEX_WAIT_PRIVATE, (uint32_t)LOCKED,
			    NEAR__FOREVER);
		seen = NEAR__LOAD_RELAXED(&lock->word);
	}
	if (mine)
		lock_announce(mine, now.outer);
}

/* A thread that has no memory for a note does not announce itself. */
static void take_otherwise(struct near_lock *lock)
{
	bool noted = near__storage_is_own();
	struct announcements *mine = noted ? announcements_own() : NULL;

	if (!noted || mine)
		take_after_sleeping(lock, mine);
	else
		while (!near_lock_try_lock(lock))
			sched_yield();
}

void near__lock_slow(struct near_lock *lock)
{
	int saved_errno = errno;

	near__pause_for(NEAR__SPIN_NS);
	if (!near_lock_try_lock(lock) && !NEAR__YIELD_UNTIL(near_lock_try_lock(lock)))
		take_otherwise(lock);
	NEAR__TSAN_ACQUIRE(lock);
	errno = saved_errno;
}

void near__unlock_slow(struct near_lock *lock)
{
	uint64_t seen = NEAR__LOAD_RELAXED(&lock->word), next;
	bool wake;

	NEAR__TSAN_RELEASE(lock);
	do {
		if (!(seen & LOCKED))
			near__die("near_lock_unlock: the lock is not held");
		next = seen - ALONE;
		wake = next >= ONE && !(next & WAKING);
		if (wake)
			next |= WAKING;
		/* Release: pairs with the acquire of the next lock. */
	} while (!NEAR__CAS(&lock->word, &seen, next, __ATOMIC_RELEASE));

	/* From here on the lock may be freed; only its address is used. */
	if (wake)
		near__futex(futex_of(lock), NEAR__FUTEX_WAKE_PRIVATE, 1, NEAR__FOREVER);
}

/* No other waiter exists in the child. If a signal handler forked while this thread waited for the
 * lock, this thread remains an announced waiter, which is awake. */
void near_lock_reset_in_child(struct near_lock *lock)
{
	uint64_t free = 0;

	if (!(NEAR__LOAD_RELAXED(&lock->word) & LOCKED))
		near__die("near_lock_reset_in_child: the lock was not held at the fork");
	for (const struct announcement *a = announcements_peek()->last; a; a = a->outer)
		free += a->lock == lock ? ONE : 0;
	/* Relaxed: the child has one thread, and whatever starts another orders this before it. */
	__atomic_store_n(&lock->word, free, __ATOMIC_RELAXED);
}
