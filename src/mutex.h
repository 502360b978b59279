/* SPDX-License-Identifier: MIT */
/* The word of near_mutex, and the argument why its slow paths are right.
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
 *   - A condition variable moves its waiters here under the same lock, and then sets PARKED; or, if
 *     there is no owner, chooses one of them. So whichever unlock comes next looks into the queue.
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
#ifndef NEARCPU_MUTEX_INTERNAL_H
#define NEARCPU_MUTEX_INTERNAL_H

#include "lot.h"
#include "mutex_at.h"
#include "order.h"
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

/* Kinds of waiters. */
enum { LOCKER, AWAITER };

/* Under the bucket's lock, after others than lockers themselves have put lockers into the queue:
 * makes the word tell of them. If the mutex is free and nobody on the way, one of them is taken,
 * chosen, and returned: it is to be woken. */
struct near__waiter *near__mutex_admit(struct near__bucket *b, struct near_mutex *m);

/* By a waiter that was put into the queue so, and was woken: returns when it holds the mutex. The
 * caller tells the checker of lock order. */
void near__mutex_lock_woken(struct near_mutex *m, struct near__waiter *w);

static inline uint32_t look(const struct near_mutex *m)
{
	return __atomic_load_n(&m->word, __ATOMIC_RELAXED);
}

/* Replaces *seen by next, or else brings *seen up to date. */
static inline bool change(struct near_mutex *m, uint32_t *seen, uint32_t next, int order)
{
	return __atomic_compare_exchange_n(&m->word, seen, next, true, order, __ATOMIC_RELAXED);
}

static inline uint32_t forks(void)
{
	return near__lot.forks << FORKS_SHIFT & ~(OWNER | FLAGS);
}

static inline uint32_t compose(uint32_t owner, uint32_t flags)
{
	return owner | flags | (flags ? forks() : 0);
}

static inline uint32_t owner_of(uint32_t word)
{
	return word & OWNER;
}

static inline uint32_t flags_of(uint32_t word)
{
	return (word & ~(OWNER | FLAGS)) == forks() ? word & FLAGS : 0;
}

static inline void check_alive(uint32_t word)
{
	if (word == DESTROYED)
		near__die("near_mutex: the mutex was destroyed");
}

#endif
