/* SPDX-License-Identifier: MIT */
/* How a thread waits for a lock, without taking it: table.h has the protocol. It first pauses, in
 * case the holder runs; then yields a few times, in case the holder was preempted; then sleeps. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ground/futex.h"
#include "ground/spin.h"
#include "table.h"

/* FUTEX_OP_SET 1; and wake further waiters if the word was 7, which it never is. */
#define STORE_1 (1 << 12 | 7)

/* How often a waiter checks the word where the barrier of table.h has become impossible. */
#define POLL_NS 1000000

static bool is_free(const struct near__atomic_lock *l)
{
	return !(__atomic_load_n(&l->word, __ATOMIC_SEQ_CST) & 1);
}

static void sleep_until_free(struct near__atomic_lock *l)
{
	__atomic_fetch_add(&l->waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		static const long poll[] = {0, POLL_NS}; /* the call's own timespec */
		bool fenced;

		__atomic_store_n(&l->waking, 0, __ATOMIC_SEQ_CST);
		fenced = !near__waiters_fence() || near__atomic_fence();
		if (is_free(l))
			break;
		syscall(SYS_futex, &l->waking, NEAR__FUTEX_WAIT_PRIVATE, 0, fenced ? NULL : poll,
			NULL, 0);
	}
	__atomic_fetch_sub(&l->waiters, 1, __ATOMIC_SEQ_CST);
}

void near__atomic_wait(struct near__atomic_lock *l)
{
	int saved_errno = errno;

	near__pause_for(NEAR__SPIN_NS);
	if (is_free(l)) {
		near__count(&l->spun);
	} else if (NEAR__YIELD_UNTIL(is_free(l))) {
		near__count(&l->yielded);
	} else {
		near__count(&l->slept);
		sleep_until_free(l);
	}
	errno = saved_errno;
}

/* The kernel stores the 1 and wakes the waiter in one call. If the 1 was stored before, a signal
 * handler between the two could wait for a thread that no other thread wakes. */
void near__atomic_wake(struct near__atomic_lock *l)
{
	int saved_errno = errno;

	if (!__atomic_load_n(&l->waking, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &l->waking, NEAR__FUTEX_WAKE_OP_PRIVATE, 1, 0, &l->waking,
			STORE_1);
	errno = saved_errno;
}
