/* SPDX-License-Identifier: MIT */
/* The word of near_mutex, and the argument for its slow paths.
 *
 * One word: the owner (0: free), and flags for threads that wait in the parking lot.
 *
 *   PARKED         a waiter for the mutex is in the queue. Legal error: set without one, as the
 *                  last one left by its deadline: the next unlock searches the queue, and clears
 *                  the flag. Never clear with a waiter, outside of the bucket's lock: it would
 *                  sleep for ever.
 *   WAKING         a waiter, the designated waker, was taken from the queue and has not yet taken
 *                  the mutex or entered the queue again. Legal error: clear with a designated waker
 *                  (there are two, and the first one clears it): an unlock wakes one thread more
 *                  than necessary. Never set without one: no unlock would wake another.
 *   RESERVED       threads that arrive leave the mutex to a designated waker that has waited for
 *                  long. Only with WAKING and without an owner. Legal errors: set although the
 *                  waker is suspended: they wait for NEAR__RESERVED_NS; clear, as one of them or a
 *                  try_lock has taken the mutex: the waker waits for that owner.
 *   AWAITED        a waiter for a condition is in the queue. As PARKED; it is set by the owner.
 *   ATOMIC_UNLOCK  unlocks use a CAS, not a sequence: a waiter fenced not long ago. Legal errors:
 *                  set without need: each unlock costs an atomic instruction; clear, without other
 *                  flags: the next waiter fences.
 *
 * Without an owner all combinations occur in which RESERVED comes with WAKING; with one, those
 * without RESERVED. The owner itself is exact. What prevents a waiter without a flag:
 *
 *   - A waiter sets PARKED and enters the queue under the bucket's lock, while there is an owner.
 *     An unlock clears PARKED, or sets WAKING, under that lock too, depending on the queue.
 *   - An unlock that finds PARKED without WAKING searches the queue. So the word is never left free
 *     with a waiter in the queue and no designated waker.
 *   - Only a designated waker clears WAKING: as it takes the mutex; or, if there is an owner, in
 *     the change that sets PARKED, as it enters the queue again (sorted by its age). Then WAKING is
 *     clear and there is an owner, whose unlock searches the queue. A designated waker does not
 *     give up: a deadline that has passed ends its next sleep, when it is not designated any more.
 *   - A broadcast moves waiters for a condition variable to this queue under the same lock, and
 *     then sets PARKED; or, if there is no owner, designates one of them. So the next unlock
 *     searches the queue.
 *
 * A designated waker can be suspended, in a signal handler or by a debugger, for any time:
 *
 *   - It never owns the mutex by then. What an unlock leaves to an old waiter, or to one whose
 *     condition is true, is a reservation: the word is free, and threads that arrive treat it as
 *     held for NEAR__RESERVED_NS. Then they take the mutex, which ends the reservation.
 *   - If it was not asleep when it was woken (lot.h), the waker designates the next waiter too
 *     (near__mutex_wake), unless an owner's unlock will. It does not change the word, which may be
 *     freed, and loads it only if a waiter in the queue proves that it is not. Then there are two
 *     designated wakers. The first one that comes clears WAKING, so WAKING proves that there is
 *     one, but not the reverse. An unlock that finds WAKING clear too early wakes one thread more
 *     than necessary.
 *   - A thread that enters the queue while WAKING is set sleeps for NEAR__RELIANCE_NS at most. Then
 *     it leaves the queue and is a designated waker itself: it takes the mutex, or enters the queue
 *     again and clears WAKING. So no thread that comes later depends on a designated waker.
 *   - A thread that entered the queue before, and waits without a deadline, checks after a tenth of
 *     a second of sleep, and when its sleep has doubled, whether the mutex is free, and then does
 *     the same. This is for a designated waker that was asleep when it was woken, and was suspended
 *     before it took the mutex.
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
 * Locking is an acquire, unlocking a release. All else is relaxed, as in src/base/lock.c: it
 * concerns one word, or the bucket's lock orders it.
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
 * process and the first, modulo 32; with another number, the flags count as clear. The number
 * repeats in a descendant of the 32nd generation, if no process in between changed the word.
 *
 * models/mutex.pml is this file as a model. */
#ifndef NEARCPU_MUTEX_INTERNAL_H
#define NEARCPU_MUTEX_INTERNAL_H

#include "base/cas.h"
#include "locks/lockdep.h"
#include "locks/mutex_at.h"
#include "locks/owner.h"
#include "parking/lot.h"

#define PARKED 1u
#define WAKING 2u
#define AWAITED 4u
#define ATOMIC_UNLOCK 8u
#define RESERVED 16u
#define FLAGS 31u
#define FORKS_SHIFT 5
#define OWNER NEAR__MUTEX_OWNER
#define DESTROYED UINT32_MAX
_Static_assert(NEAR__NO_OWNER == RESERVED, "never in a word: RESERVED without WAKING");

/* What a waker passes to a waiter that is to be a designated waker. */
#define DESIGNATED 1

/* Kinds of waiters: for the mutex, for a condition. */
enum { LOCKER, AWAITER };

/* Called under the bucket's lock, after a thread has put other threads as lockers into the queue:
 * sets the flags for them. If the mutex is free and has no designated waker, takes one of them as
 * the designated waker and returns it; the caller wakes it. */
struct near__waiter *near__mutex_admit(struct near__bucket *b, struct near_mutex *m);

/* Wakes a waiter that was taken from the queue as a designated waker (NULL: none); and if it was
 * not asleep, the next one. Accesses the mutex only while there are waiters in the queue. */
void near__mutex_wake(const struct near_mutex *m, struct near__waiter *taken);

/* Called by a waiter for a condition that was woken, with its token: returns when it holds the
 * mutex. The caller calls the lock-order checker. */
void near__mutex_lock_woken(struct near_mutex *m, struct near__waiter *w);

/* Called by the owner, which enters the queue as a waiter for a condition. */
void near__mutex_set_awaited(struct near_mutex *m);

#endif
