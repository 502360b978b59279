/* SPDX-License-Identifier: MIT */
/* near_mutex: a 4-byte mutex with deadlines, cancellation and bounded waiting.
 *
 * Cost:      lock without contention: one atomic instruction, or, in a process with one thread
 *            (glibc 2.32 and later), a sequence; unlock: a sequence (seq.h) without an
 *            atomic instruction, if the thread is live and has not waited recently (for a mutex
 *            with a long hold time), else one atomic instruction. A waiter spins (the duration
 *            depends on the mutex's hold-time estimate), yields a few times, then parks (park.h).
 *            An unlock searches the queue when threads sleep and no woken one still has to try the
 *            mutex.
 * Fences:    the first waiter that parks makes a membarrier, which interrupts all CPUs that run
 *            this process. With more than two CPUs, an unlock then costs an atomic instruction, and
 *            a park no interrupt, until as many unlocks without waiters have passed as outweigh the
 *            next membarrier.
 * Slices:    where the kernel can extend a thread's time slice (7.0 on, rseq.h), a thread that got
 *            the mutex after a wait in lock requests that until its unlock. No other thread does.
 * Memory:    4 bytes. Zero is a free mutex: static and calloc'ed ones need no call, constructors of
 *            any priority may use them, and nothing needs to be destroyed.
 * Safety:    any thread; not in signal handlers. Nothing here allocates or is a cancellation point;
 *            errno is left alone. A signal handler that interrupts a wait must
 *            return: after siglongjmp(3) the waiter, which is on the stack, stays in its queue.
 * Order:     lock acquires what the unlock before it released. ThreadSanitizer is informed, even if
 *            the library was built without it.
 * Fairness:  a thread that finds the mutex free takes it, even if others sleep: that makes it fast.
 *            But an unlock reserves the mutex for the first sleeper if that has waited for a
 *            millisecond, at most once in half a millisecond: threads that arrive leave it to that
 *            sleeper for a millisecond. So a wait takes about one millisecond for each sleeper
 *            before it, and the sections in that time, if the sleepers get a CPU within a
 *            millisecond. While a woken thread has not run yet, one in 32 unlocks of each thread
 *            checks. For a thread in await, the first unlock that finds its condition true reserves
 *            the mutex, after the sleepers that came before and are due. near_mutex_unlock_fair
 *            always reserves it. No mode is less fair: near_mutex(3) gives the reason.
 * Suspended: a thread that a signal handler, a debugger or a collector suspends while it waits does
 *            not hold the mutex, and delays the others by 10 ms at most (exception: near_mutex(3)).
 * Misuse:    unlock by a thread that does not hold the mutex, lock by the thread that does, use
 *            after destroy stop the program with one line on standard error; so does, in a forked
 *            child, waiting for a mutex whose holder does not exist in the child; so does, after .1
 *            s or twice the wait, waiting for a thread that does not exist (limits: near_mutex(3)).
 *            NEAR_CONF=lock_check:1 reports lock-order inversions; before other memory than that
 *            of near_malloc(3) is used again, it needs a destroy, near_mutex(3).
 * Fork:      a thread that holds a mutex over a fork unlocks it in the child as in the parent.
 * Limits:    not recursive, not between processes. Code with an unlock in it holds a sequence, and
 *            must not be unloaded (seq.h).
 * Fallback:  unlock by one atomic instruction.
 *
 * Freeing: as near_lock. The last user may free the memory when its own unlock has returned.
 *
 * Concurrent with:    lock  unlock  await  destroy
 *     lock             yes    yes    yes     no
 *     unlock           yes    no     yes     no     (there is one holder)
 *     await            yes    yes    yes     no
 *
 *     static struct near_mutex m;
 *     static unsigned long jobs;
 *
 *     static bool is_work(void *unused) { return jobs > 0; }
 *
 *     near_mutex_lock(&m);
 *     near_mutex_await(&m, is_work, NULL);
 *     jobs--;
 *     near_mutex_unlock(&m);
 *
 * Source: the locks on WebKit's and Rust's parking lots; the hand-over after a millisecond of Go
 * and CPython; conditions of absl::Mutex and nsync. Differs in that the word names its holder, that
 * only one woken waiter at a time competes for the mutex, that waits end by deadlines on three
 * clocks and by tokens.
 */
#ifndef NEARCPU_MUTEX_H
#define NEARCPU_MUTEX_H

#include <nearcpu/cancel.h>
#include <nearcpu/seq.h>
#include <time.h>

/* glibc 2.32 and later have __libc_single_threaded. ThreadSanitizer does not understand sequences,
 * but it does the CAS. */
#define NEAR__LOCKS_BY_SEQ 0
#if defined __GLIBC_PREREQ && NEAR__HAS_SEQ && !NEAR__TSAN
#if __GLIBC_PREREQ(2, 32)
#include <sys/single_threaded.h>
#undef NEAR__LOCKS_BY_SEQ
#define NEAR__LOCKS_BY_SEQ 1
#endif
#endif

NEAR__BEGIN_DECLS

/* Private. Free: 0, or flags without a holder. For each part, which error is legal, and what it
 * costs; src/locks/mutex.h has the argument.
 *
 *   bits 10-31  the holder's number, 0: none. No error.
 *   bits 5-9    the number of forks, modulo 32, when the flags were set. With another number than
 *               that of the process they count as clear: they are of waiters of a parent.
 *   4 RESERVED  no holder, and WAKING is set: threads that arrive leave the mutex to the designated
 *               waker. Set for a waker that does not come: they wait a millisecond. Clear too
 *               early: the waker waits for another holder.
 *   3 ATOMIC_UNLOCK
 *               unlocks use a CAS. Set without need: an unlock costs an atomic instruction. Clear:
 *               the next waiter fences.
 *   2 AWAITED   a waiter for a condition is in the queue. Set without one: an unlock searches the
 *               queue, and clears it. Clear with one is an error: nothing would wake it.
 *   1 WAKING    a designated waker is on its way. Set without one is an error: unlocks would wake
 *               no other. Clear with one: an unlock wakes one thread more than necessary.
 *   0 PARKED    a waiter for the mutex is in the queue: as AWAITED.
 */
struct NEAR__CAPABILITY("mutex") near_mutex {
	uint32_t word;
};

/* clang-format off */
#define NEAR_MUTEX_INIT { 0 }
/* clang-format on */

/* Of near__more.owner: the low half is the number by which a word names this thread as the holder,
 * or NEAR__NO_OWNER, which no word contains, before the thread has a number. The upper half is the
 * unlock budget: how many of the next unlocks use a CAS and notify the library. It is set after
 * waits, when other threads probably poll the word at the unlock: a sequence would then fetch the
 * cache line twice, once to read it and once to write. */
#define NEAR__NO_OWNER 16u
#define NEAR__EXPECTED ((uint64_t)1 << 32)
#define NEAR__MUTEX_OWNER 0xfffffc00u

/* `seen`: what near__mutex_fast returned. */
NEAR_API void near__mutex_lock_slow(struct near_mutex *m, uint32_t seen);
NEAR_API bool near__mutex_try_lock_slow(struct near_mutex *m);
NEAR_API void near__mutex_unlock_slow(struct near_mutex *m, bool fair);

/* After an expected unlock; the mutex may be gone. */
NEAR_API void near__mutex_unlocked(const struct near_mutex *m);

#if NEAR__LOCKS_BY_SEQ
/* if (__libc_single_threaded == 1 && *word == 0) *word = owner; the store commits. No other thread
 * can change the word: this one would have to start it in between, in a signal handler, which
 * aborts the sequence. */
NEAR__INLINE bool near__mutex_lock_by_seq(uint32_t *word, uint64_t owner)
{
	uint64_t seen, not_alone;

	return NEAR__SEQ((NEAR__SEQ_IN_AREA),
		NEAR_LOAD1(not_alone, alone, 0)
		NEAR_ADD_CONST(not_alone, -1)
		NEAR_LOAD4(seen, word, 0)
		NEAR_OR(seen, not_alone)
		NEAR_BRANCH_NONZERO(seen, near_failed)
		NEAR_COMMIT4_SHARED_RELEASE(owner, word),
		NEAR_OUT(seen, not_alone), NEAR_IN(word, owner, (alone, &__libc_single_threaded)));
}
#endif

/* Returns 0 if it took the mutex; else the content of the word, or NEAR__NO_OWNER. Acquire: pairs
 * with the release in the unlock that stored the 0. Strong, so that a failure means that the word
 * was not 0. */
NEAR__INLINE uint32_t near__mutex_fast(struct near_mutex *m)
{
	uint32_t owner = (uint32_t)near__more.owner, seen = 0;

	if (owner == NEAR__NO_OWNER)
		return owner;
	if (__atomic_compare_exchange_n(&m->word, &seen, owner, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return 0;
	return seen;
}

/* Takes the mutex; sleeps if necessary. */
NEAR_INLINE void near_mutex_lock(struct near_mutex *m) NEAR__ACQUIRES(m) NEAR__UNCHECKED
{
	uint32_t seen;

#if NEAR__LOCKS_BY_SEQ
	uint32_t owner = NEAR__LOW_HALF(near__more.owner);

	/* The sequence decides; the load is for speed where there are several threads. */
	if (__atomic_load_n(&__libc_single_threaded, __ATOMIC_RELAXED) && owner != NEAR__NO_OWNER &&
	    near__self.state == NEAR__LIVE && near__mutex_lock_by_seq(&m->word, owner))
		return;
#endif
	seen = near__mutex_fast(m);
	if (__builtin_expect(seen != 0, 0))
		near__mutex_lock_slow(m, seen);
}

/* Takes the mutex if it is free, even if threads sleep or it is reserved. Returns whether it did.
 * Never waits. */
NEAR_INLINE bool near_mutex_try_lock(struct near_mutex *m)
	NEAR__ACQUIRES_IF(true, m) NEAR__UNCHECKED
{
	return __builtin_expect(!near__mutex_fast(m), 1) || near__mutex_try_lock_slow(m);
}

/* Takes the mutex and returns 0. Or returns without it: -ETIMEDOUT when the deadline (absolute;
 * NULL: none) has passed by `clock` (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME); -ECANCELED: `cancel`
 * (NULL: none) is set; -EINTR: `clock` has NEAR_INTERRUPTIBLE (cancel.h), and a signal handler ran;
 * -EINVAL: unknown clock, or an invalid deadline. A free mutex is taken in any case. */
NEAR_API int near_mutex_lock_until(struct near_mutex *m, int clock, const struct timespec *deadline,
				   struct near_cancel *cancel) NEAR__ACQUIRES_IF(0, m);

/* if (*word == owner) *word = 0; the store commits. The word is the same for all CPUs: a thread
 * that sets bits in it concurrently fences sequences before it relies on them (src/locks/mutex.h).
 * Requires that the thread is live. Release: pairs with the acquire of the next lock. If a waiter
 * has fetched the cache line, the load would fetch it for reading, and the store again. */
NEAR__INLINE bool near__mutex_unlock_by_seq(uint32_t *word, uint64_t owner)
{
	uint64_t seen;

	near__prefetch_for_write(word);
	return NEAR__SEQ((NEAR__SEQ_IN_AREA),
		NEAR_LOAD4(seen, word, 0)
		NEAR_BRANCH_NE(seen, owner, near_failed)
		NEAR_COMMIT4_SHARED_RELEASE(zero, word),
		NEAR_OUT(seen), NEAR_IN(word, owner, (zero, 0)));
}

/* Unlocks the mutex, and wakes a sleeper: if that has waited for a millisecond (see Fairness), it
 * reserves the mutex for it. While a woken thread has not run yet, only some unlocks check for such
 * sleepers. Requires that the caller holds the mutex. */
NEAR_INLINE void near_mutex_unlock(struct near_mutex *m) NEAR__RELEASES(m) NEAR__UNCHECKED
{
	uint64_t owner = near__more.owner;
	uint32_t word = NEAR__LOW_HALF(owner);
	bool done;

	/* ThreadSanitizer understands the CAS alone. */
	if (NEAR__HAS_SEQ && !NEAR__TSAN && __builtin_expect(owner < NEAR__EXPECTED, 1) &&
	    __builtin_expect(near__self.state == NEAR__LIVE, 1))
		done = near__mutex_unlock_by_seq(&m->word, owner);
	else
		done = __atomic_compare_exchange_n(&m->word, &word, 0, false, __ATOMIC_RELEASE,
						   __ATOMIC_RELAXED);
	if (__builtin_expect(!done, 0))
		near__mutex_unlock_slow(m, false);
	else if (__builtin_expect(owner >= NEAR__EXPECTED, 0))
		near__mutex_unlocked(m);
}

/* The same, but reserves the mutex for the first sleeper, if any: it then takes a context switch
 * until a thread has the mutex again. */
NEAR_API void near_mutex_unlock_fair(struct near_mutex *m) NEAR__RELEASES(m);

/* Waits until condition(arg) is true, and returns with the mutex held, as it was at the call.
 *
 * The thread that unlocks the mutex calls the conditions of the waiters, with the mutex held, and
 * reserves the mutex for the first waiter whose condition is true; that calls it again. So a
 * condition must depend only on what the mutex guards, and must not lock, park, allocate or take
 * long. */
NEAR_API void near_mutex_await(struct near_mutex *m, bool (*condition)(void *arg), void *arg)
	NEAR__REQUIRES(m);

/* The same: 0. Or gives up as near_mutex_lock_until. The mutex is held in any case when it returns
 * (with -EINVAL too), so that it may return long after the deadline. */
NEAR_API int near_mutex_await_until(struct near_mutex *m, bool (*condition)(void *arg), void *arg,
				    int clock, const struct timespec *deadline,
				    struct near_cancel *cancel) NEAR__REQUIRES(m);

/* Whether the calling thread holds the mutex. */
NEAR_API bool near_mutex_is_mine(const struct near_mutex *m);

/* Makes later uses stop the program. Requires that the mutex is free and no thread waits. */
NEAR_API void near_mutex_destroy(struct near_mutex *m) NEAR__EXCLUDES(m);

NEAR__END_DECLS

#endif
