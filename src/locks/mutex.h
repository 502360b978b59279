/* SPDX-License-Identifier: MIT */
/* The word of near_mutex, and the argument why its slow paths are right.
 *
 * One word: the owner (0: free), and bits that tell of those who wait in the parking lot.
 *
 *   PARKED   waiters for the mutex are in the queue, or about to enter it, or were
 *   WAKING   one of them, the chosen one, was taken from the queue and is on its way to the word
 *   AWAITED  waiters for a condition are in the queue, or were
 *   WARY     unlocks go by CAS, not by sequences: a waiter fenced not long ago
 *
 * A bit that stands for nobody costs an unlock a look at the queue, which clears it. It must not be
 * the other way round. What keeps it so:
 *
 *   - PARKED is set, and a waiter enters the queue, under the bucket's lock, while there is an
 *     owner. An unlock clears PARKED, or sets WAKING, under that lock too, going by what is in the
 *     queue.
 *   - An unlock that finds PARKED without WAKING looks into the queue. So the word is never left
 *     free with somebody in the queue and nobody on the way.
 *   - Only the chosen one clears WAKING: as it takes the mutex; or, finding an owner, together with
 *     setting PARKED, as it enters the queue again (by its age). There is an owner then with WAKING
 *     clear, and its unlock looks into the queue. The chosen one does not give up: a deadline that
 *     has passed ends its next sleep, when it is not chosen any more.
 *   - A condition variable moves its waiters here under the same lock, and then sets PARKED; or, if
 *     there is no owner, chooses one of them. So whichever unlock comes next looks into the queue.
 *   - A waiter whom the mutex is handed is the owner before it is awake: the word never was free.
 *
 * The fast unlock is a CAS, or a sequence (near__mutex_unlock_by_seq). That loads the word, and if
 * it is the owner alone, without bits, stores a 0. No atomic instruction: a bit that another thread
 * sets in between is lost. So whoever sets the first bit in the word of another owner (a waiter, or
 * a signal of a condition variable) calls near__fence, which aborts the sequence or finds it
 * committed, and looks at the word again. As PARKED is set under the bucket's lock alone, the one
 * that stands there then is the one that was set: a sequence that begins later sees it. Where other
 * bits stood before, the owner has taken the mutex with them, or they were fenced: no sequence is
 * under way. A thread that is not live unlocks by CAS.
 *
 * An unlock accesses the mutex for the last time with the CAS, or the sequence's store, that
 * lets go of it. In the slow path it still holds the bucket's lock then, and a taken waiter, and
 * neither stands in the mutex: so the memory may go as soon as its last user's unlock has
 * returned.
 *
 * Taking the mutex is an acquire, letting go of it a release, handing it over goes by the release
 * and acquire of near__lot_wake. All else is relaxed, as in src/ground/lock.c: it is one word, or
 * the bucket's lock orders it.
 *
 * A fence interrupts all CPUs that run the process: with many CPUs that must not be the price of
 * each park. So who fences sets WARY too. While it stands, other bits need no fence, as the owner
 * took the mutex with it. It goes when so many unlocks found it alone, each of which cost more than
 * a sequence, that they have paid for the next fence; with two CPUs it is not set. Each thread
 * counts for itself, for all its mutexes: so there is a fence for the first park of a mutex, and
 * else one for so many unlocks, whichever mutexes they were of. A thread's count that is short of
 * the number when it ends is lost, which only delays the next fence.
 *
 * fork: bits of the parent's waiters mean nothing in the child, where the queues are empty; WAKING
 * would keep its sleepers from being woken. So bits carry the number of forks between this process
 * and the first, and those of another number are taken for none. Six bits of it: the same number
 * comes again in a descendant of the 64th degree, with the word untouched since.
 *
 * models/mutex.pml is this file as a model. */
#ifndef NEARCPU_MUTEX_INTERNAL_H
#define NEARCPU_MUTEX_INTERNAL_H

#include "parking/lot.h"
#include "mutex_at.h"
#include "order.h"
#include "owner.h"

#define PARKED 1u
#define WAKING 2u
#define AWAITED 4u
#define WARY 8u
#define FLAGS 15u
#define FORKS_SHIFT 4
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

/* What is set together with the first bit in the word of another owner. */
uint32_t near__mutex_with_first(uint32_t flags);

/* Under the bucket's lock, after PARKED was set in a word of an owner without bits: whether it
 * stays. */
bool near__mutex_is_told(const struct near_mutex *m);

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
