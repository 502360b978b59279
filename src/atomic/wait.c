/* SPDX-License-Identifier: MIT */
/* How a thread waits for a lock, without taking it: table.h has the protocol. First pauses, for a
 * holder that runs; then it gives its CPU away a few times, for one that was preempted; then it
 * sleeps. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lend.h"
#include "table.h"

/* The kernel's numbers: not every C library comes with its headers. */
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

/* As near_lock's, and measured the same way: no look between the pauses, as each look takes the
 * cache line from threads that make progress. */
#define PAUSES 16
#define YIELDS 7

/* Relaxed: for people. */
static void count(uint32_t *n)
{
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

static bool may_be_had(const struct near__atomic_lock *l, bool or_borrow)
{
	return !(__atomic_load_n(&l->word, __ATOMIC_SEQ_CST) & 1) ||
	       (or_borrow && near__is_lent(l));
}

static bool after_yielding(const struct near__atomic_lock *l, bool or_borrow)
{
	for (int i = 0; i < YIELDS; i++) {
		syscall(SYS_sched_yield);
		if (may_be_had(l, or_borrow))
			return true;
	}
	return false;
}

static void sleep_until(struct near__atomic_lock *l, bool or_borrow)
{
	__atomic_fetch_add(&l->waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		__atomic_store_n(&l->waking, 0, __ATOMIC_SEQ_CST);
		if (may_be_had(l, or_borrow))
			break;
		syscall(SYS_futex, &l->waking, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	}
	/* 0 already: a signal handler forked meanwhile, and this is the child. */
	if (__atomic_fetch_sub(&l->waiters, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_store_n(&l->waiters, 0, __ATOMIC_SEQ_CST);
}

void near__atomic_wait(struct near__atomic_lock *l, bool or_borrow)
{
	int saved_errno = errno;

	near__pauses(PAUSES);
	if (may_be_had(l, or_borrow)) {
		count(&l->spun);
	} else if (after_yielding(l, or_borrow)) {
		count(&l->yielded);
	} else {
		count(&l->slept);
		sleep_until(l, or_borrow);
	}
	errno = saved_errno;
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
