/* SPDX-License-Identifier: MIT */
/* near_lock: an 8-byte lock for very short critical sections.
 *
 * Cost:      lock and unlock without contention: one atomic instruction each. A waiter spins for
 *            160 ns, yields up to seven times, then sleeps in a futex. An unlock makes a system
 *            call only when a thread sleeps and no woken thread still has to try the lock.
 * Memory:    8 bytes. Zero is a free lock: static and calloc'ed locks need no call, and
 *            constructors of any priority may use them. There is nothing to destroy.
 * Safety:    any thread; not in signal handlers (a handler that interrupts the holder would wait
 *            forever). errno is left alone; nothing here is a cancellation point. A signal handler
 *            that interrupts a wait must return, not leave by siglongjmp(3).
 * Order:     lock acquires what the unlock before it released. ThreadSanitizer sees both by itself.
 * Fairness:  none. A thread that finds the lock free takes it, even if others sleep; one of these
 *            has then been woken.
 * Limits:    not recursive, no deadlines, not between processes.
 * Misuse:    unlock of a free lock stops the program with one line on standard error. The word does
 *            not name the holder: if the holder exits without unlocking, others wait forever.
 * Fork:      lock in the prepare handler, unlock in the parent's, near_lock_reset_in_child in the
 *            child's. A lock that another thread holds at the fork stays locked in the child.
 * Fallback:  needs no rseq; the same code everywhere.
 *
 * Freeing: the last user may free the lock's memory as soon as its own unlock has returned, even
 * while an earlier unlock has not. The atomic instruction that releases the lock is the unlock's
 * last access to the word; the system call that may follow only passes the address. If the memory
 * has been unmapped, the call does nothing. If it contains another futex by then, a sleeper there
 * gets a spurious wake-up, which every user of futexes must tolerate.
 *
 * Concurrent with:    lock  try_lock  unlock  reset_in_child
 *     lock             yes    yes       yes         no
 *     try_lock         yes    yes       yes         no
 *     unlock           yes    yes       no          no     (there is one holder)
 *
 *     static struct near_lock lock;
 *     static unsigned long hits;
 *
 *     near_lock_lock(&lock);
 *     hits++;
 *     near_lock_unlock(&lock);
 *
 * Source: Jens Gustedt, "Futex based locks for C11's generic atomics" (RR-8818, 2015): one word
 * with the number of threads inside, one atomic instruction in, one out, no access afterwards.
 * Differs in that the number stands outside the futex word, so that an arrival does not send
 * the others' FUTEX_WAIT back with EAGAIN, and in the bit WAKING, which keeps a row of unlocks
 * from waking a sleeper each.
 */
#ifndef NEARCPU_LOCK_H
#define NEARCPU_LOCK_H

#include <nearcpu/detail/tsan.h>
#include <stdbool.h>
#include <stdint.h>

NEAR__BEGIN_DECLS

/* For clang's -Wthread-safety: each lock of this library is a capability, and each function is
 * annotated with what it acquires, releases or requires. The annotations are empty for other
 * compilers. A program marks what a lock guards:
 *
 *     static int jobs __attribute__((guarded_by(m)));
 */
#if defined(__clang__)
#define NEAR__ATTRIBUTE(x) __attribute__((x))
#else
#define NEAR__ATTRIBUTE(x)
#endif

#define NEAR__CAPABILITY(kind) NEAR__ATTRIBUTE(capability(kind))
#define NEAR__ACQUIRES(lock) NEAR__ATTRIBUTE(acquire_capability(lock))
#define NEAR__ACQUIRES_SHARED(lock) NEAR__ATTRIBUTE(acquire_shared_capability(lock))
#define NEAR__RELEASES(lock) NEAR__ATTRIBUTE(release_capability(lock))
#define NEAR__RELEASES_SHARED(lock) NEAR__ATTRIBUTE(release_shared_capability(lock))
/* The function has acquired the lock if it returns `result`. */
#define NEAR__ACQUIRES_IF(result, lock) NEAR__ATTRIBUTE(try_acquire_capability(result, lock))
#define NEAR__ACQUIRES_SHARED_IF(result, lock)                                                     \
	NEAR__ATTRIBUTE(try_acquire_shared_capability(result, lock))
#define NEAR__REQUIRES(lock) NEAR__ATTRIBUTE(requires_capability(lock))
#define NEAR__EXCLUDES(lock) NEAR__ATTRIBUTE(locks_excluded(lock))
/* For the function bodies here, which the analysis cannot follow: they use atomics and
 * sequences. */
#define NEAR__UNCHECKED NEAR__ATTRIBUTE(no_thread_safety_analysis)

/* For a recursive lock (clang 21). */
#if defined(__clang__) && defined(__has_attribute)
#if __has_attribute(reentrant_capability)
#define NEAR__REENTRANT NEAR__ATTRIBUTE(reentrant_capability)
#endif
#endif
#ifndef NEAR__REENTRANT
#define NEAR__REENTRANT
#endif

/* Private. The high 32 bits count the holder and the waiters that have registered. The low 32 bits
 * are the futex word, LOCKED and WAKING. src/base/lock.c explains the combinations. */
struct NEAR__CAPABILITY("mutex") near_lock {
	uint64_t word __attribute__((aligned(8)));
};

/* clang-format off */
#define NEAR_LOCK_INIT { 0 }
/* clang-format on */

#define NEAR__LOCK_LOCKED ((uint64_t)1)
#define NEAR__LOCK_WAKING ((uint64_t)2)
#define NEAR__LOCK_ONE ((uint64_t)1 << 32)
#define NEAR__LOCK_ALONE (NEAR__LOCK_ONE | NEAR__LOCK_LOCKED)

NEAR_API void near__lock_slow(struct near_lock *lock);
NEAR_API void near__unlock_slow(struct near_lock *lock);

/* Free to {1, LOCKED}. Acquire: pairs with the release in the unlock that stored the 0. The value
 * that a failure loads is not used. Strong, so that a failure means that the lock is held or has
 * waiters. */
NEAR__INLINE bool near__lock_fast(struct near_lock *lock)
{
	uint64_t unused = 0;

	return __atomic_compare_exchange_n(&lock->word, &unused, NEAR__LOCK_ALONE, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Takes the lock; sleeps if need be. Requires that the caller does not hold it. */
NEAR_INLINE void near_lock_lock(struct near_lock *lock) NEAR__ACQUIRES(lock) NEAR__UNCHECKED
{
	if (__builtin_expect(!near__lock_fast(lock), 0))
		near__lock_slow(lock);
	NEAR__WATCHED_ACQUIRE(lock);
}

/* Takes the lock if it is free, even if threads sleep. Returns whether it did. Never waits. */
NEAR_INLINE bool near_lock_try_lock(struct near_lock *lock)
	NEAR__ACQUIRES_IF(true, lock) NEAR__UNCHECKED
{
	/* Relaxed: the value is only the expected value of the CAS. */
	uint64_t seen = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);

	/* WAKING stays as it is. Acquire: pairs with the release in unlock. */
	while (!(seen & NEAR__LOCK_LOCKED))
		if (__atomic_compare_exchange_n(&lock->word, &seen, seen + NEAR__LOCK_ALONE, true,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			NEAR__WATCHED_ACQUIRE(lock);
			return true;
		}
	return false;
}

/* Releases the lock; wakes a sleeper unless a woken one still has to try the lock. Requires that
 * the caller holds it. */
NEAR_INLINE void near_lock_unlock(struct near_lock *lock) NEAR__RELEASES(lock) NEAR__UNCHECKED
{
	uint64_t alone = NEAR__LOCK_ALONE;

	NEAR__WATCHED_RELEASE(lock);
	/* {1, LOCKED} to free. Release: pairs with the acquire of the next lock. */
	if (__builtin_expect(!__atomic_compare_exchange_n(&lock->word, &alone, 0, false,
							  __ATOMIC_RELEASE, __ATOMIC_RELAXED),
			     0))
		near__unlock_slow(lock);
}

/* Frees the lock in the child of a fork. Requires that the thread that forked held it. An unlock
 * would be wrong: the word also counts the parent's waiters, which do not exist in the child,
 * except for the thread that forked, if its signal handler forked while the thread waited for the
 * lock. */
NEAR_API void near_lock_reset_in_child(struct near_lock *lock) NEAR__RELEASES(lock);

NEAR__END_DECLS

#endif
