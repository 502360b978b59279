/* SPDX-License-Identifier: MIT */
/* Helpers of the tests of fork that check the library's locks: an object, its lock, and a fork that
 * must not change which locks the thread holds. */
#ifndef NEARCPU_TESTS_FORKS_H
#define NEARCPU_TESTS_FORKS_H

#include "atomic/table.h"
#include "words.h"

static uint64_t lines[4][8] __attribute__((aligned(64)));
static uint64_t *object; /* its lock is neither the first nor the last */

static struct near__atomic_lock *const first = near__atomic_locks.locks;
static struct near__atomic_lock *const last = &near__atomic_locks.locks[NEAR__ATOMIC_LOCKS - 1];

static inline struct near__atomic_lock *lock_of_object(void)
{
	return near__lock_of_line(near__line_of(object));
}

static inline void find_object(void)
{
	for (unsigned i = 0; !object; i++) {
		CHECK(i < LENGTH(lines));
		object = lines[i];
		if (lock_of_object() == first || lock_of_object() == last)
			object = NULL;
	}
}

static inline void *add_one(void *unused)
{
	words_add(object, 3);
	return unused;
}

static inline unsigned long take(struct near__atomic_lock *l)
{
	unsigned long seen;

	CHECK(near__try_take(l, near__held_by_me(), &seen));
	return seen;
}

static inline void release(struct near__atomic_lock *l, unsigned long seen)
{
	if (near__release(l, seen))
		near__atomic_wake(l);
}

/* Waits until N threads sleep, so that they do not check the lock by themselves. */
static inline void wait_for_sleepers(uint32_t n)
{
	while (__atomic_load_n(&lock_of_object()->waiters, SEQ_CST) != n)
		sched_yield();
	usleep(20000);
}

/* A fork has begun to take locks, or released them again and sleeps until `held` is free, on which
 * `others` sleep, too. */
static inline void wait_for_fork(const struct near__atomic_lock *held, uint32_t others)
{
	while (!(__atomic_load_n(&first->word, SEQ_CST) & 1) &&
	       __atomic_load_n(&held->waiters, SEQ_CST) <= others)
		sched_yield();
}

static inline void check_locks(bool is_mine[NEAR__ATOMIC_LOCKS], bool alone)
{
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++) {
		unsigned long word = __atomic_load_n(&near__atomic_locks.locks[i].word, SEQ_CST);

		is_mine[i] = word == near__held_by_me();
		CHECK(!alone || is_mine[i] || !(word & 1));
	}
}

/* Whatever this thread holds it holds afterwards, in both processes; and the child knows of nobody
 * else. */
static inline void fork_once(void)
{
	bool before[NEAR__ATOMIC_LOCKS], after[NEAR__ATOMIC_LOCKS];
	pid_t child;

	check_locks(before, false);
	child = fork();
	CHECK(child >= 0);
	check_locks(after, child == 0);
	CHECK(memcmp(before, after, sizeof(before)) == 0);
	if (child == 0) {
		add_one(NULL);
		_exit(0);
	}
	CHECK(unit_wait(child, NULL) == 0);
}

#endif
