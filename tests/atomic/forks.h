/* SPDX-License-Identifier: MIT */
/* What the tests of forks share that look at the library's locks: an object, who holds its lock,
 * and what a fork must leave as it was. */
#ifndef NEARCPU_TESTS_FORKS_H
#define NEARCPU_TESTS_FORKS_H

#include "unit.h"
#include "acts.h"

#include "atomic/table.h"

#define SEQ_CST __ATOMIC_SEQ_CST

static uint64_t lines[4][8] __attribute__((aligned(64)));
static uint64_t *object; /* its lock is neither the first nor the last */

static struct near__atomic_lock *const first = near__atomic_table.locks;
static struct near__atomic_lock *const last = &near__atomic_table.locks[NEAR__ATOMIC_LOCKS - 1];

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
	uint64_t old[3], new[3];

	atomic_load_any(sizeof(old), object, old, SEQ_CST);
	do {
		CHECK(old[0] == old[1] && old[1] == old[2]);
		new[0] = new[1] = new[2] = old[0] + 1;
	} while (!atomic_cas_any(sizeof(old), object, old, new, SEQ_CST, SEQ_CST));
	return unused;
}

static inline unsigned long take(struct near__atomic_lock *l)
{
	unsigned long seen;

	CHECK(near__try_take(l, near__held_by_me(), &seen));
	return seen;
}

static inline void let_go(struct near__atomic_lock *l, unsigned long seen)
{
	if (near__release(l, seen))
		near__atomic_wake(l);
}

static inline void wait_for(const bool *flag)
{
	while (!__atomic_load_n(flag, SEQ_CST))
		sched_yield();
}

/* And asleep, so that they do not look again by themselves. */
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

static inline void set_alarm(void)
{
	alarm(unit_slow() ? 100 : 20);
}

static inline void look_at_locks(bool is_mine[NEAR__ATOMIC_LOCKS], bool alone)
{
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++) {
		unsigned long word = __atomic_load_n(&near__atomic_table.locks[i].word, SEQ_CST);

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

	look_at_locks(before, false);
	child = fork();
	CHECK(child >= 0);
	look_at_locks(after, child == 0);
	CHECK(memcmp(before, after, sizeof(before)) == 0);
	if (child == 0) {
		set_alarm();
		add_one(NULL);
		_exit(0);
	}
	CHECK(unit_wait(child, NULL) == 0);
}

#endif
