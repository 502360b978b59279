/* SPDX-License-Identifier: MIT */
/* How a thread waits for a lock, without taking it: table.h has the protocol. It first pauses, in
 * case the holder runs; then yields a few times, in case the holder was preempted; then sleeps. */
#include <errno.h>

#include "atomic/table.h"
#include "base/futex.h"
#include "base/spin.h"

/* FUTEX_OP_SET 1; and wake further waiters if the word was 7, which it never is. */
#define STORE_1 (1 << 12 | 7)

/* How often a waiter checks the word where the barrier of table.h has become impossible. */
#define POLL_NS 1000000

static bool lock_is_free(const struct near__atomic_lock *l)
{
	return !(__atomic_load_n(&l->word, __ATOMIC_SEQ_CST) & 1);
}

static void sleep_until_free(struct near__atomic_lock *l)
{
	__atomic_fetch_add(&l->waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		bool fenced;

		__atomic_store_n(&l->waking, 0, __ATOMIC_SEQ_CST);
		fenced = !near__waiters_fence() || near__atomic_fence();
		if (lock_is_free(l))
			break;
		near__futex_sleep(&l->waking, 0, fenced ? NEAR__FOREVER : POLL_NS, false);
	}
	__atomic_fetch_sub(&l->waiters, 1, __ATOMIC_SEQ_CST);
}

void near__atomic_wait(struct near__atomic_lock *l)
{
	int saved_errno = errno;

	near__pause_for(NEAR__SPIN_NS);
	if (lock_is_free(l)) {
		near__count(&l->spun);
	} else if (NEAR__YIELD_UNTIL(lock_is_free(l))) {
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
	if (!__atomic_load_n(&l->waking, __ATOMIC_SEQ_CST))
		near__futex_wake_op(&l->waking, 1, STORE_1);
}
