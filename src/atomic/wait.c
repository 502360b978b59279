/* SPDX-License-Identifier: MIT */
/* How a thread waits for a lock: table.h has the protocol. First pauses, for a holder that runs;
 * then it gives its CPU away a few times, for one that was preempted; then it sleeps. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "table.h"

/* The kernel's numbers: not every C library comes with its headers. */
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

/* As near_lock's, and measured the same way: no look between the pauses, as each look takes the
 * cache line from threads that make progress. */
#define PAUSES 16
#define YIELDS 7

/* After one wait for a writer so many loads take the lock. */
#define CROWD 64

static void count(uint32_t *n)
{
	/* Relaxed, and no read-modify-write: the lock's holder counts. */
	__atomic_store_n(n, __atomic_load_n(n, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

static bool take_after_yielding(struct near__atomic_lock *l, unsigned long mine,
				unsigned long *seen)
{
	for (int i = 0; i < YIELDS; i++) {
		syscall(SYS_sched_yield);
		if (near__try_take(l, mine, seen))
			return true;
	}
	return false;
}

static void take_after_sleeping(struct near__atomic_lock *l, unsigned long mine,
				unsigned long *seen)
{
	__atomic_fetch_add(&l->waiters, 1, __ATOMIC_SEQ_CST);
	while (!near__try_take(l, mine, seen)) {
		__atomic_store_n(&l->waking, 0, __ATOMIC_SEQ_CST);
		if (!(__atomic_load_n(&l->word, __ATOMIC_SEQ_CST) & 1))
			continue;
		syscall(SYS_futex, &l->waking, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	}
	__atomic_store_n(&l->waking, 0, __ATOMIC_SEQ_CST);
	/* 0 already: a signal handler forked meanwhile, and this is the child. */
	if (__atomic_fetch_sub(&l->waiters, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_store_n(&l->waiters, 0, __ATOMIC_SEQ_CST);
}

unsigned long near__atomic_take_slow(struct near__atomic_lock *l, unsigned long mine)
{
	int saved_errno = errno;
	uint32_t *path = &l->spun;
	unsigned long seen;

	near__pauses(PAUSES);
	if (!near__try_take(l, mine, &seen)) {
		path = &l->yielded;
		if (!take_after_yielding(l, mine, &seen)) {
			path = &l->slept;
			take_after_sleeping(l, mine, &seen);
		}
	}
	count(path);
	__atomic_store_n(&l->crowded, CROWD, __ATOMIC_RELAXED);
	errno = saved_errno;
	return seen;
}

void near__atomic_wake(struct near__atomic_lock *l)
{
	uint32_t nobody = 0;
	int saved_errno = errno;

	if (__atomic_compare_exchange_n(&l->waking, &nobody, 1, false, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST))
		syscall(SYS_futex, &l->waking, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved_errno;
}
