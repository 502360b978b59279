/* SPDX-License-Identifier: MIT */
/* The locks of atomic objects that no single instruction changes.
 *
 * Memory is divided into lines of 64 bytes, and each line has one of 256 locks (hash.h). An
 * operation that changes an object holds its locks (locks.h). A load usually holds none: it loads
 * the lock's word before and after it copies the object, and the copy is a value of the object if
 * the word was even and did not change. So a load writes nothing to memory that is shared, and
 * constants in read-only memory can be loaded.
 *
 *   word      even: free; the value is a version, which does not recur (if words have 32 bits: not
 *             before 2^31 sections; with one thread: see near__try_take_alone). Odd: held by the
 *             thread whose thread pointer is word - 1.
 *   version   the even word, while a thread holds several locks.
 *   section   what the holder is about to do, for a signal handler that interrupts it (section.h).
 *             NULL while the lock is free, was just taken, or is about to be released.
 *   changed   1 after a handler of the holder found no open section here (section.h). A later
 *             holder may find it, too, and then clears it.
 *   waiters   how many threads sleep, or are about to.
 *   waking    the futex that they sleep on: 1 from the moment when one of them is woken until one
 *             of them checks the word again.
 *   contended how many of the next loads take the lock, too, and which thread's do not (locked.c).
 *
 * Release and sleep: an unlocker stores an even word and loads `waiters`; if there are any and
 * `waking` is 0, it has the kernel store 1 there and wake one waiter, in one system call. A waiter
 * increments `waiters`, clears `waking`, executes a full barrier on the CPUs of all threads
 * (fence.c), checks the word, and sleeps if `waking` is still 0; when it wakes up it repeats this
 * from the clearing. A CPU may execute the unlocker's loads before its store is visible. But the
 * barrier is either after the store: then the waiter finds the lock free; or before the loads: then
 * the unlocker finds the waiter. If the unlocker wakes nobody because `waking` is 1, it loaded this
 * before the waiter cleared it, so before the barrier; the store precedes the load in the program,
 * so the waiter checks the word after the store. Without such barriers (`waiters_fence` is 0),
 * all of these accesses are sequentially consistent, with the same effect. A thread that tries to
 * take the lock is no longer a waiter: if it fails, it starts as above; if it then waits for
 * another lock, it first wakes a waiter of this one. models/atomic_lock.pml has this as a model.
 *
 * Sections, and loads that hold no lock: the stores to the object follow a release fence that
 * follows the store of the odd word; the loads from it precede an acquire fence that precedes the
 * second load of the word. So a load that has read anything that a section wrote finds another
 * word. The first load of the word is an acquire; it pairs with the store that released the lock.
 *
 * Sequential consistency, also with objects that need no lock: the compare-exchanges that take the
 * locks and the first load of the word are sequentially consistent. So a section takes effect when
 * the last of its locks is taken: any other access to the object is before, or waits for the
 * release. What the thread does next is after. The release need not be more than a release. */
#ifndef NEARCPU_ATOMIC_TABLE_H
#define NEARCPU_ATOMIC_TABLE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nearcpu/detail/arch/arch.h>

#include "atomic/hash.h"

#include NEAR__ARCH_ATOMIC

struct near__section;

struct near__atomic_lock {
	unsigned long word;
	unsigned long version;
	struct near__section *section;
	uint32_t waiters, waking;
	uint32_t changed;
	uint32_t contended;
	/* How threads waited for it. */
	uint32_t spun, yielded, slept;
	/* Written by the holder: loads that took the lock; operations of handlers within another
	 * one; how often it was released without a section. */
	uint32_t loads, nested, retries;
} __attribute__((aligned(64)));

struct near__atomic_locks {
	struct near__atomic_lock locks[NEAR__ATOMIC_LOCKS];
	int reported;      /* the process whose counts one copy of the library has printed */
	int waiters_fence; /* fence.c */
};

/* There is one in a process (table.c). A change of its layout, of that of struct near__section, or
 * of the protocol requires another name. In version 0.1.0, where waiters had no barriers, it was
 * near__atomic_table. */
extern struct near__atomic_locks near__atomic_locks __attribute__((visibility("default")));

static inline uintptr_t near__line_of(const void *p)
{
	return (uintptr_t)p >> NEAR__ATOMIC_LINE_SHIFT;
}

static inline struct near__atomic_lock *near__lock_of_line(uintptr_t line)
{
	return &near__atomic_locks.locks[near__atomic_hash(line)];
}

/* The word of a lock that this thread holds. The thread pointer is unique among threads, and the
 * same in the child of a fork, which keeps the locks that the thread holds. On CPUs without one,
 * the address of `errno` is unique as well, and the same for all copies of the library. */
static inline unsigned long near__held_by_me(void)
{
	return (uintptr_t)(NEAR__HAS_THREAD_POINTER ? near__thread_pointer() : &errno) | 1;
}

/* Relaxed: only this thread stores `mine`. */
static inline bool near__holds(const struct near__atomic_lock *l, unsigned long mine)
{
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) == mine;
}

/* How operations are done currently. */
enum near__atomic_mode {
	NEAR__SHARED,
	/* The process has one thread, so a lock is held only by code that a signal handler of this
	 * thread interrupted, and nothing reads concurrently. Plain loads and stores suffice, as in
	 * the C library's mutexes. The mode does not change within a section. */
	NEAR__ALONE,
	/* ThreadSanitizer is notified. */
	NEAR__TRACED,
};

/* Points to the mode: in the C library if that has a byte that is 1 while there is one thread, else
 * to a constant. */
extern const char *near__atomic_mode __attribute__((visibility("hidden")));

/* A handler may run between the load and the store. It leaves a higher word, which the store that
 * ends this section may lower again, but to no less than the version after `seen`: a load of the
 * interrupted code that began earlier finds another word than its first one. */
static inline bool near__try_take_alone(struct near__atomic_lock *l, unsigned long mine,
					unsigned long *seen)
{
	*seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
	if (*seen & 1)
		return false;
	__atomic_store_n(&l->word, mine, __ATOMIC_RELAXED);
	return true;
}

/* Takes the lock if it is free; *seen receives its word from before. The fence is that of sections,
 * see above. */
static inline bool near__try_take(struct near__atomic_lock *l, unsigned long mine,
				  unsigned long *seen)
{
	/* Relaxed: the compare-exchange checks the value. */
	*seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
	if ((*seen & 1) || !__atomic_compare_exchange_n(&l->word, seen, mine, false,
							__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return true;
}

/* Wakes one waiter. */
void near__atomic_wake(struct near__atomic_lock *l);

/* Whether waiters execute a barrier on the CPUs of all threads, instead of the unlockers one on
 * their own. It changes once, from false to true. Sequentially consistent: a waiter that found
 * it false had announced itself before that, so an unlocker that finds it true finds the waiter,
 * too. */
static inline bool near__waiters_fence(void)
{
	return __atomic_load_n(&near__atomic_locks.waiters_fence, __ATOMIC_SEQ_CST) != 0;
}

/* Releases the lock, whose free word was `seen`. Returns whether the caller must wake a waiter. */
static inline bool near__release(struct near__atomic_lock *l, unsigned long seen)
{
	if (__builtin_expect(!near__waiters_fence(), 0)) {
		__atomic_store_n(&l->word, seen + 2, __ATOMIC_SEQ_CST);
		return __atomic_load_n(&l->waiters, __ATOMIC_SEQ_CST) != 0;
	}
	/* Release: pairs with the first load of the word by loads, and with the take of the next
	 * holder. The load of `waiters` is relaxed: the waiter's barrier orders it after the
	 * store. */
	__atomic_store_n(&l->word, seen + 2, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&l->waiters, __ATOMIC_RELAXED) != 0;
}

/* Wakes one waiter, if there are any. Called after a release, and by a thread that was woken and
 * does not take the lock. */
static inline void near__pass_on(struct near__atomic_lock *l)
{
	if (__builtin_expect(__atomic_load_n(&l->waiters, __ATOMIC_SEQ_CST) != 0, 0))
		near__atomic_wake(l);
}

static inline void near__release_alone(struct near__atomic_lock *l, unsigned long seen)
{
	__atomic_store_n(&l->word, seen + 2, __ATOMIC_RELAXED);
}

/* Relaxed: statistics. */
static inline void near__count(uint32_t *n)
{
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

/* The part of `contended` that is the number of loads. The rest is a part of the thread pointer of
 * the thread whose loads do not take the lock. Two threads may have the same part: it is a hint. */
#define NEAR__CONTENDED_MOST 127U

/* Makes the next loads take the lock, except those of this thread, which holds the lock. */
static inline void near__set_contended(struct near__atomic_lock *l, unsigned loads)
{
	uint32_t me = (uint32_t)near__held_by_me() & ~NEAR__CONTENDED_MOST;

	/* Relaxed: a hint. */
	__atomic_store_n(&l->contended, loads ? me | loads : 0, __ATOMIC_RELAXED);
}

/* Whether a load of this thread takes the lock. */
static inline bool near__is_contended(const struct near__atomic_lock *l)
{
	uint32_t seen = __atomic_load_n(&l->contended, __ATOMIC_RELAXED);

	return seen && (seen ^ (uint32_t)near__held_by_me()) > NEAR__CONTENDED_MOST;
}

/* ---- fence.c ---- */

/* Executes a full barrier on each CPU that runs a thread of this process. Returns false if the
 * kernel refuses, although it did not earlier. Changes errno. */
bool near__atomic_fence(void);

/* ---- atomic_wait.c ---- */

/* Returns when the lock was free a moment ago. Requires that the calling operation holds no
 * lock. */
void near__atomic_wait(struct near__atomic_lock *l);

#endif
