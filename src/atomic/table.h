/* SPDX-License-Identifier: MIT */
/* The locks behind atomic objects that no instruction changes at once.
 *
 * The memory is divided into lines of 64 bytes, and each line has one of 256 locks (hash.h). Who
 * changes an object holds its locks (locks.h). Who reads it holds none, as a rule: he looks at
 * the lock's word before and after, and if it stayed the same and free he has read a value that
 * was there. So nothing is written for a load, and constants in read-only memory are read like
 * others.
 *
 *   word      even: free, and a version that never comes again (of 32 bits: not before 2^31
 *             sections; with one thread: see near__try_take_alone). Odd: held by the thread whose
 *             thread pointer is word - 1.
 *   version   the even word, while a thread holds several locks at once.
 *   section what the holder is about to do, for a signal handler that interrupts it (section.h).
 *             Null while the lock is free, just taken, or about to be let go of.
 *   waiters   how many threads sleep, or are about to.
 *   waking the futex that they sleep on: 1 from when one of them was woken until one of them has
 *             looked again.
 *   crowded   so many loads take the lock, too (locked.c).
 *
 * Letting go of a lock, and sleeping: an unlocker stores an even word, looks at `waiters`, and if
 * `waking` is 0 has the kernel make it 1 and wake one sleeper at once. A waiter adds itself to
 * `waiters`, makes `waking` 0, looks at the word, and sleeps as long as `waking` is 0; woken, it
 * begins again. Each store comes before the look behind it for all threads, as all are
 * sequentially consistent. So either the waiter finds the lock free, or the unlocker finds the
 * waiter. If the unlocker then wakes nobody because `waking` is 1, that was before the waiter
 * made it 0; so the waiter's look comes after the unlocker's store. Who tries for the lock is no
 * waiter any more: if it is taken away from him, he begins as above; if he turns to another lock,
 * he passes the wake-up on. models/atomic_lock.pml is this as a model.
 *
 * Sections, and loads that hold no lock: a writer's stores to the object come behind a release
 * fence behind the store of the odd word; a reader's loads come before an acquire fence before
 * its second look. Who has read anything of a section therefore sees a changed word. The first
 * look is an acquire that pairs with the store that let go.
 *
 * Sequential consistency, also with objects that need no lock: words are changed, and looked at
 * first, by sequentially consistent accesses; letting go of several locks ends with such a fence.
 */
#ifndef NEARCPU_ATOMIC_TABLE_H
#define NEARCPU_ATOMIC_TABLE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nearcpu/arch/arch.h>

#include "hash.h"

#include NEAR__ARCH_ATOMIC

struct near__section;

struct near__atomic_lock {
	unsigned long word;
	unsigned long version;
	struct near__section *section;
	uint32_t waiters, waking;
	uint32_t unused; /* 0: earlier copies of the library use it */
	uint32_t crowded;
	/* How threads waited for it. */
	uint32_t spun, yielded, slept;
	/* Loads that took the lock; operations of handlers in the midst of another; how often it
	 * was let go of without a section. By its holder. */
	uint32_t read, helped, dropped;
} __attribute__((aligned(64)));

struct near__atomic_table {
	struct near__atomic_lock locks[NEAR__ATOMIC_LOCKS];
	int told; /* the process whose counts were printed: by one copy of the library */
};

/* One in a process: table.c. A change of its layout, or of struct near__section, needs another
 * name. */
extern struct near__atomic_table near__atomic_table __attribute__((visibility("default")));

static inline uintptr_t near__line_of(const void *p)
{
	return (uintptr_t)p >> NEAR__ATOMIC_LINE_SHIFT;
}

static inline struct near__atomic_lock *near__lock_of_line(uintptr_t line)
{
	return &near__atomic_table.locks[near__atomic_hash(line)];
}

/* The word of a lock that this thread holds. Each thread has a thread pointer of its own, and
 * the child of a fork keeps it, and what it holds. Where there is none to be had, `errno` is the
 * thread's own, and the same for all copies of the library. */
static inline unsigned long near__held_by_me(void)
{
	return (uintptr_t)(NEAR__HAS_THREAD_POINTER ? near__thread_pointer() : &errno) | 1;
}

/* Relaxed: only this thread stores `mine`. */
static inline bool near__holds(const struct near__atomic_lock *l, unsigned long mine)
{
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) == mine;
}

/* How operations are done, at the moment. */
enum near__atomic_mode {
	NEAR__SHARED,
	/* While the process has one thread, no lock is held but by code that this thread's signal
	 * handler interrupted, and nobody reads meanwhile: plain loads and stores do, as they do
	 * for the C library's own mutexes. A section ends as it began. */
	NEAR__ALONE,
	/* ThreadSanitizer is told. */
	NEAR__TRACED,
};

/* Where it stands: in the C library, which knows whether there is one thread, and says 1 if so;
 * else here. */
extern const char *near__atomic_mode __attribute__((visibility("hidden")));

/* Between the load and the store a handler may come and go; it leaves a higher word, which the
 * store that ends this section may lower again, but not below one more than `seen`: whoever was
 * interrupted before, while he read, sees another word than he saw. */
static inline bool near__try_take_alone(struct near__atomic_lock *l, unsigned long mine,
					unsigned long *seen)
{
	*seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
	if (*seen & 1)
		return false;
	__atomic_store_n(&l->word, mine, __ATOMIC_RELAXED);
	return true;
}

/* Takes the lock if it is free; *seen receives its word from before. The fence: see above. */
static inline bool near__try_take(struct near__atomic_lock *l, unsigned long mine,
				  unsigned long *seen)
{
	/* Relaxed: the value only says what to try. */
	*seen = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
	if ((*seen & 1) || !__atomic_compare_exchange_n(&l->word, seen, mine, false,
							__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return true;
}

/* Wakes one who waits for it. */
void near__atomic_wake(struct near__atomic_lock *l);

/* Lets go of the lock, whose free word was `seen`. Whether somebody is to be woken. */
static inline bool near__let_go_quietly(struct near__atomic_lock *l, unsigned long seen)
{
	__atomic_exchange_n(&l->word, seen + 2, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&l->waiters, __ATOMIC_SEQ_CST) != 0;
}

/* Wakes one who waits, if there is one: for who lets go, or was woken and does not take it. */
static inline void near__pass_on(struct near__atomic_lock *l)
{
	if (__builtin_expect(__atomic_load_n(&l->waiters, __ATOMIC_SEQ_CST) != 0, 0))
		near__atomic_wake(l);
}

static inline void near__let_go_alone(struct near__atomic_lock *l, unsigned long seen)
{
	__atomic_store_n(&l->word, seen + 2, __ATOMIC_RELAXED);
}

/* How a thread waited. Relaxed: for people. */
static inline void near__count(uint32_t *n)
{
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

/* ---- wait.c ---- */

/* Returns when it is worth trying to take the lock. Requires that the calling operation holds
 * none. */
void near__atomic_wait(struct near__atomic_lock *l);

#endif
