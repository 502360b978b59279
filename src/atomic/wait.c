/* SPDX-License-Identifier: MIT */
/* How a thread waits for a lock, without taking it: table.h has the protocol. First pauses, for a
 * holder that runs; then it gives its CPU away a few times, for one that was preempted; then it
 * sleeps. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "table.h"

/* The kernel's numbers: not every C library comes with its headers. */
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_OP_PRIVATE 133
/* FUTEX_OP_SET 1; and wake others if it was 7, which it never is. */
#define STORE_1 (1 << 12 | 7)

/* As near_lock's, and measured the same way: no look between the pauses, as each look takes the
 * cache line from threads that make progress. */
#define PAUSES 16
#define YIELDS 7

static bool is_free(const struct near__atomic_lock *l)
{
	return !(__atomic_load_n(&l->word, __ATOMIC_SEQ_CST) & 1);
}

static bool after_yielding(const struct near__atomic_lock *l)
{
	for (int i = 0; i < YIELDS; i++) {
		syscall(SYS_sched_yield);
		if (is_free(l))
			return true;
	}
	return false;
}

static void sleep_until_free(struct near__atomic_lock *l)
{
	__atomic_fetch_add(&l->waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		__atomic_store_n(&l->waking, 0, __ATOMIC_SEQ_CST);
		if (is_free(l))
			break;
		syscall(SYS_futex, &l->waking, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	}
	__atomic_fetch_sub(&l->waiters, 1, __ATOMIC_SEQ_CST);
}

void near__atomic_wait(struct near__atomic_lock *l)
{
	int saved_errno = errno;

	near__pauses(PAUSES);
	if (is_free(l)) {
		near__count(&l->spun);
	} else if (after_yielding(l)) {
		near__count(&l->yielded);
	} else {
		near__count(&l->slept);
		sleep_until_free(l);
	}
	errno = saved_errno;
}

/* The kernel stores the 1 as it wakes: were it stored before, a signal handler that comes between
 * could wait for somebody whom nobody may wake. */
void near__atomic_wake(struct near__atomic_lock *l)
{
	int saved_errno = errno;

	if (!__atomic_load_n(&l->waking, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &l->waking, FUTEX_WAKE_OP_PRIVATE, 1, 0, &l->waking, STORE_1);
	errno = saved_errno;
}
