/* SPDX-License-Identifier: MIT */
/* near_rwlock: a lock of many readers or one writer, whose readers count on their own slot.
 *
 * Without writers, a reader adds one to the count of its own slot, and subtracts one from the slot
 * where it is when it unlocks; the number of readers is the sum. A writer revokes this bias: it
 * closes the slots, fences, adds the counts up into one word, and waits until that has no readers.
 * Readers then change the word, by atomics, until the reads since the last write outweigh the cost
 * of the next fence: then the slots open again.
 *
 * Cost:      read lock and unlock 1 to 2 ns each, no atomic instruction; while writers come often,
 *            one atomic instruction each. A write lock takes two, an unlock one: together what
 *            those of pthread_rwlock take. A write lock that finds the slots open makes one
 *            membarrier, and the thread that opens them again another: they interrupt all CPUs that
 *            run this process. That happens at most once in hundreds of reads: after as many as
 *            have cost the time of the two calls.
 * Memory:    32 bytes, and 16 per slot in use, allocated by near_rwlock_init. Zero is a valid lock
 *            without slots: readers use the word.
 * Safety:    any thread; not in signal handlers. No lock or unlock allocates or is a cancellation
 *            point; errno is left alone. A signal handler that interrupts a wait must
 *            return: after siglongjmp(3) the waiter, which is on the stack, stays in its queue.
 * Order:     a read lock acquires what the write unlock before it released, a write lock what all
 *            unlocks before it did. ThreadSanitizer sees it.
 * Fairness:  two policies. Readers first, the default: a reader waits for the writer that holds the
 *            lock, never for one that waits. So a reader that waits for another reader makes
 *            progress, and a writer waits until there is a moment without readers, possibly
 *            forever. Writers first: a writer that waits excludes new readers, so it waits for the
 *            current ones only. With both policies, the unlock of a writer admits all readers that
 *            sleep, so that these wait for one writer at most; writers wait for each other as in
 *            mutex.h, with a reservation after a millisecond; and a thread that holds the lock for
 *            reading may lock it for reading again while a writer waits: recursive reads do not
 *            deadlock.
 * Suspended: a thread that is suspended while it waits to write delays the others as in mutex.h.
 *            One that waits to read holds the lock for reading from the writer's unlock on, as with
 *            pthread_rwlock: while it is suspended, others read, and writers wait for it.
 * Owner:     the thread that locked unlocks, on whatever CPU it is by then. A thread records the
 *            first four locks that it holds for reading by address, and the number of all others.
 * Misuse:    an unlock by a thread that does not hold the lock, a write lock by a thread that reads
 *            or writes, a read lock by a thread that writes, use after destroy stop the program
 *            with one line on standard error; so does, in a forked child, waiting for a holder that
 *            does not exist in the child, and waiting for a writer that does not exist, as in
 *            mutex.h. NEAR_CONF=lock_check:1 reports lock-order inversions.
 * Fork:      a thread that holds a lock over a fork unlocks it in the child as in the parent.
 * Limits:    writers first: a reader must not wait for another reader, since a writer may wait
 *            between the two. No upgrade from reading to writing: two readers that upgrade would
 *            wait for each other. Eight million readers at once. Not between processes.
 * Fallback:  threads that are not live count in the word.
 *
 * Freeing: as near_lock, where the lock has no slots. near_rwlock_destroy, which frees the slots,
 * is for when all unlocks have returned.
 *
 * Concurrent with:       read lock, unlock   write lock, unlock   destroy
 *     read lock, unlock         yes                yes              no
 *     write lock, unlock        yes                yes              no
 *
 *     static struct near_rwlock l;
 *
 *     near_rwlock_init(&l, NULL);
 *     near_rwlock_read_lock(&l);
 *     ... = table[i];
 *     near_rwlock_read_unlock(&l);
 *     near_rwlock_write_lock(&l);            // elsewhere, now and then
 *     table[i] = ...;
 *     near_rwlock_write_unlock(&l);
 *
 * Source: the bias of BRAVO (Dice and Kogan, 2019), the kernel's percpu_rw_semaphore, the waiting
 * of Go's RWMutex. Differs in that readers write to no line that others write to, that the sum is
 * made by fencing restartable sequences, and in deadlines, tokens and recursive reads.
 */
#ifndef NEARCPU_RWLOCK_H
#define NEARCPU_RWLOCK_H

#include <nearcpu/detail/gated.h>
#include <nearcpu/mutex.h>

NEAR__BEGIN_DECLS

/* Private; src/locks/rwlock.h explains it. The copy of a slot is its count and, at 8, its gate (4
 * bytes). */
struct NEAR__CAPABILITY("rwlock") near_rwlock {
	struct near_mutex writers;
	uint32_t forks; /* between the first process and the one that last checked the lock */
	uint64_t word __attribute__((aligned(8)));
	void *copies;          /* NULL: none */
	uint32_t rebias_after; /* this many reads without a write open the slots */
	uint32_t policy;
};

/* Whether a reader that comes while others read waits for a writer that waits. */
enum near_rwlock_policy {
	NEAR_RWLOCK_READERS_FIRST, /* no, as pthread_rwlock by default; also of a lock of zeros */
	NEAR_RWLOCK_WRITERS_FIRST, /* yes, unless the thread reads the lock already */
};

/* clang-format off */
#define NEAR_RWLOCK_INIT { NEAR_MUTEX_INIT, 0, 0, 0, 0, NEAR_RWLOCK_READERS_FIRST }
#define NEAR_RWLOCK_INIT_WRITERS_FIRST \
	{ NEAR_MUTEX_INIT, 0, 0, 0, 0, NEAR_RWLOCK_WRITERS_FIRST }
/* clang-format on */

/* Of a new lock; 0: the default. */
struct near_rwlock_options {
	enum near_rwlock_policy policy; /* default NEAR_RWLOCK_READERS_FIRST */
	uint64_t reserved[4];           /* 0 */
};

/* How many locks a thread records by address. near__more.reads is the first. */
#define NEAR__HOLDS 4

/* Makes a free lock whose readers count on slots, where the process can have them. `options` may be
 * NULL. Returns 0; -ENOMEM: it is a lock without slots, as valid as one of zeros; -EINVAL: there is
 * no such policy, or a reserved word is not 0; the lock is one of zeros. */
NEAR_API int near_rwlock_init(struct near_rwlock *l, const struct near_rwlock_options *options);

/* Frees the slots; later uses stop the program. Requires that no thread holds the lock or waits,
 * and that all calls have returned. */
NEAR_API void near_rwlock_destroy(struct near_rwlock *l) NEAR__EXCLUDES(l);

NEAR_API void near__rwlock_read_lock_slow(struct near_rwlock *l);
NEAR_API bool near__rwlock_try_read_lock_slow(struct near_rwlock *l);
NEAR_API void near__rwlock_read_unlock_slow(struct near_rwlock *l);

/* Of the word: slots count readers. A hint, which saves a sequence that a closed gate would end:
 * the gate decides. */
#define NEAR__RWLOCK_BIASED UINT64_C(1)

NEAR__INLINE bool near__rwlock_is_biased(const struct near_rwlock *l)
{
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) & NEAR__RWLOCK_BIASED;
}

/* If the thread's first hold names the lock, the thread has checked the lock before, in this
 * process, and NEAR_CONF=lock_check:1 is not set. The address may have been that of another lock
 * then: hence the check of `copies`. */
NEAR__INLINE bool near__rwlock_read_fast(struct near_rwlock *l)
{
	void *copies = l->copies;

	if (near__more.reads.lock != (uintptr_t)l || !copies || !near__rwlock_is_biased(l) ||
	    !near__add_behind_gate(copies, 1))
		return false;
	near__more.reads.depth++;
	NEAR__TSAN_ACQUIRE(l);
	return true;
}

/* Locks for reading; sleeps if need be. */
NEAR_INLINE void near_rwlock_read_lock(struct near_rwlock *l)
	NEAR__ACQUIRES_SHARED(l) NEAR__UNCHECKED
{
	if (__builtin_expect(!near__rwlock_read_fast(l), 0))
		near__rwlock_read_lock_slow(l);
}

/* Locks for reading unless a writer holds the lock. Returns whether it did. Never waits. */
NEAR_INLINE bool near_rwlock_try_read_lock(struct near_rwlock *l)
	NEAR__ACQUIRES_SHARED_IF(true, l) NEAR__UNCHECKED
{
	return __builtin_expect(near__rwlock_read_fast(l), 1) || near__rwlock_try_read_lock_slow(l);
}

/* Locks for reading: 0. Or gives up: -ETIMEDOUT when the deadline (absolute; NULL: none) has passed
 * by `clock` (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME); -ECANCELED: `cancel` (NULL: none) is set;
 * -EINTR: `clock` has NEAR_INTERRUPTIBLE (cancel.h), and a signal handler ran; -EINVAL: unknown
 * clock, or an invalid deadline. Where no writer is it locks in any case. */
NEAR_API int near_rwlock_read_lock_until(struct near_rwlock *l, int clock,
					 const struct timespec *deadline,
					 struct near_cancel *cancel) NEAR__ACQUIRES_SHARED_IF(0, l);

/* Ends a read lock of this thread. */
NEAR_INLINE void near_rwlock_read_unlock(struct near_rwlock *l)
	NEAR__RELEASES_SHARED(l) NEAR__UNCHECKED
{
	void *copies = l->copies;

	NEAR__TSAN_RELEASE(l);
	if (__builtin_expect(near__more.reads.lock == (uintptr_t)l && near__more.reads.depth &&
				     copies && near__rwlock_is_biased(l) &&
				     near__add_behind_gate(copies, -1),
			     1))
		near__more.reads.depth--;
	else
		near__rwlock_read_unlock_slow(l);
}

/* Locks for writing; sleeps if need be. */
NEAR_API void near_rwlock_write_lock(struct near_rwlock *l) NEAR__ACQUIRES(l);

/* Locks for writing if no thread holds the lock. Returns whether it did. Does not wait for a reader
 * or writer; it may fence, and wait for another thread that fences or forks. */
NEAR_API bool near_rwlock_try_write_lock(struct near_rwlock *l) NEAR__ACQUIRES_IF(true, l);

/* Locks for writing: 0. Or gives up as near_rwlock_read_lock_until. A free lock is taken in any
 * case. */
NEAR_API int near_rwlock_write_lock_until(struct near_rwlock *l, int clock,
					  const struct timespec *deadline,
					  struct near_cancel *cancel) NEAR__ACQUIRES_IF(0, l);

/* Ends a write lock of this thread. Lets in all readers that sleep, then the next writer. */
NEAR_API void near_rwlock_write_unlock(struct near_rwlock *l) NEAR__RELEASES(l);

/* Makes this thread, which writes, a reader, with no writer in between. */
NEAR_API void near_rwlock_downgrade(struct near_rwlock *l) NEAR__RELEASES(l)
	NEAR__ACQUIRES_SHARED(l);

/* Whether this thread holds the lock for writing. */
NEAR_API bool near_rwlock_is_mine(const struct near_rwlock *l);

NEAR__END_DECLS

#endif
