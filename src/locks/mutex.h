/* SPDX-License-Identifier: MIT */
/* The word of near_mutex, and the argument for its slow paths.
 *
 * One word: the owner (0: free), and flags for threads that wait in the parking lot.
 *
 *   PARKED         waiters for the mutex are in the queue, or about to enter it, or were
 *   WAKING         one of them, the designated waker, was taken from the queue and has not yet
 *                  taken the mutex or entered the queue again
 *   AWAITED        waiters for a condition are in the queue, or were
 *   ATOMIC_UNLOCK  unlocks use a CAS, not a sequence: a waiter fenced not long ago
 *
 * A flag without a waiter costs one unlock a search of the queue, which clears it. A waiter without
 * a flag would sleep for ever. This prevents it:
 *
 *   - A waiter sets PARKED and enters the queue under the bucket's lock, while there is an owner.
 *     An unlock clears PARKED, or sets WAKING, under that lock too, depending on the queue.
 *   - An unlock that finds PARKED without WAKING searches the queue. So the word is never left free
 *     with a waiter in the queue and no designated waker.
 *   - Only the designated waker clears WAKING: as it takes the mutex; or, if there is an owner, in
 *     the change that sets PARKED, as it enters the queue again (sorted by its age). Then WAKING is
 *     clear and there is an owner, whose unlock searches the queue. The designated waker does not
 *     give up: a deadline that has passed ends its next sleep, when it is not designated any more.
 *   - A condition variable moves its waiters to this queue under the same lock, and then sets
 *     PARKED; or, if there is no owner, designates one of them. So the next unlock searches the
 *     queue.
 *   - A handoff makes a waiter the owner before it is awake: the word is not free in between.
 *
 * The fast unlock is a CAS, or a sequence (near__mutex_unlock_by_seq), which loads the word and, if
 * it is the owner without flags, stores 0. That is no atomic instruction: a flag that another
 * thread sets in between is lost. So a thread that sets the first flag in the word of another owner
 * (a waiter, or a signal of a condition variable) calls near__fence, which aborts the sequence or
 * finds it committed, and then loads the word again. PARKED is set under the bucket's lock alone,
 * so a PARKED that the load finds is the one that was set: a sequence that begins later loads it.
 * If the word had other flags before, the owner took the mutex with them, or they were fenced: no
 * sequence can be in progress. A thread that is not live unlocks by CAS.
 *
 * In a process with one thread, lock is a sequence, too (near__mutex_lock_by_seq), which loads the
 * word and stores the owner without an atomic instruction. It loads glibc's __libc_single_threaded
 * first, which a thread clears before it starts another one: pthread_create does, and our clone().
 * If a signal handler starts a thread in the middle of the sequence, the signal has aborted that.
 * The word is the same in all cases, so that any unlock matches any lock, and waiters of a thread
 * that was started inside a section find the owner. Not covered: threads that a program starts by
 * the system call itself.
 *
 * An unlock accesses the mutex for the last time with the CAS, or the sequence's store, that
 * releases it. The slow path still has the bucket's lock then, and a taken waiter, but neither is
 * in the mutex: the memory can be freed as soon as its last user's unlock has returned.
 *
 * Locking is an acquire, unlocking a release; a handoff uses the release and acquire of
 * near__lot_wake. All else is relaxed, as in src/ground/lock.c: it concerns one word, or the
 * bucket's lock orders it.
 *
 * A fence interrupts all CPUs that run the process, which is too expensive for each park on a
 * machine with many CPUs. So the thread that fences sets ATOMIC_UNLOCK, too. While that is set,
 * other flags need no fence, since the owner took the mutex with it. Each unlock with
 * ATOMIC_UNLOCK alone costs more than a sequence; after as many as cost about one fence, the flag
 * is cleared. With two CPUs it is never set. Each thread counts these unlocks over all its mutexes,
 * since the word has no room: so there is a fence for the first park of a mutex, and after that one
 * for each such number of unlocks, of any mutexes. A thread that ends loses its count, which only
 * delays the next fence.
 *
 * fork: the flags of the parent's waiters mean nothing in the child, where the queues are empty;
 * WAKING would keep its sleepers asleep. So words with flags carry the number of forks between this
 * process and the first, modulo 64; with another number, the flags count as clear. The number
 * repeats in a descendant of the 64th generation, if no process in between changed the word.
 *
 * models/mutex.pml is this file as a model. */
#ifndef NEARCPU_MUTEX_INTERNAL_H
#define NEARCPU_MUTEX_INTERNAL_H

#include "parking/lot.h"
#include "mutex_at.h"
#include "ground/cas.h"
#include "lockdep.h"
#include "owner.h"

#define PARKED 1u
#define WAKING 2u
#define AWAITED 4u
#define ATOMIC_UNLOCK 8u
#define FLAGS 15u
#define FORKS_SHIFT 4
#define OWNER NEAR__MUTEX_OWNER
#define DESTROYED UINT32_MAX
_Static_assert(NEAR__NO_OWNER == 1u << FORKS_SHIFT, "never in a word: a number without flags");

/* What a waker passes to a waiter. */
#define DESIGNATED 1
#define HANDOFF 2

/* Kinds of waiters: for the mutex, for a condition. */
enum { LOCKER, AWAITER };

/* Called under the bucket's lock, after a thread has put other threads as lockers into the queue:
 * sets the flags for them. If the mutex is free and has no designated waker, takes one of them as
 * the designated waker and returns it; the caller wakes it. */
struct near__waiter *near__mutex_admit(struct near__bucket *b, struct near_mutex *m);

/* The flags that are set together with the first flag in the word of another owner. */
uint32_t near__mutex_first_flags(uint32_t flags);

/* Called under the bucket's lock, after PARKED was set in the word of an owner without flags:
 * aborts that owner's sequence. False: the sequence had committed its 0, so that PARKED is lost. */
bool near__mutex_fence_owner(const struct near_mutex *m);

/* Called by a waiter that was put into the queue so, and was woken by an unlock, or by a thread
 * that has taken it from the queue without a token: returns when it holds the mutex. The caller
 * calls the lock-order checker. */
void near__mutex_lock_woken(struct near_mutex *m, struct near__waiter *w);

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
