/* SPDX-License-Identifier: MIT */
/* near_rcu: callbacks are pushed, and waited for; src/rcu/rcu.h has the argument. */
#include "rcu/rcu.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/heap.h"

/* near_rcu_call_bounded, and calls that yield. Odd, so that a thread that calls in two domains in
 * turn checks both. */
#define CALLS_PER_CHECK 31

/* Pushes on the slot's list of this batch: stores the link into the head, then the list, which
 * commits. A fence after the batch was changed aborts it, unless it has committed. */
static bool try_push(struct near_rcu *d, uint64_t *p, struct near_rcu_head *head)
{
	uint64_t at, batch, first;

	return NEAR_SEQ(
		NEAR_SLOT(at, p)
		NEAR_LOAD8(batch, d, 24)
		NEAR_ADD(at, batch)
		NEAR_LOAD8(first, at, 0)
		NEAR_STORE8(first, head, 0)
		NEAR_COMMIT8(head, at, 0),
		NEAR_OUT(at, batch, first), NEAR_IN(NEAR_OBJECT(p), d, head));
}
_Static_assert(!NEAR__HAS_SEQ || offsetof(struct near_rcu, batch) == 24, "try_push");
_Static_assert(offsetof(struct near_rcu_head, next) == 0, "try_push");

/* Sequentially consistent: the load of `call_wakes` that follows stays behind. */
static void push_by_cas(struct near_rcu *d, struct near_rcu_head *head)
{
	struct near_rcu_head *first = __atomic_load_n(&d->pushed, __ATOMIC_RELAXED);

	do {
		head->next = first;
		NEAR__TSAN_RELEASE(&d->calls); /* the link, too */
	} while (!__atomic_compare_exchange_n(&d->pushed, &first, head, true, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
}

static void callback_push(struct near_rcu *d, struct near_rcu_head *head,
			  void (*function)(struct near_rcu_head *head), size_t bytes)
{
	head->function = function;
	head->bytes = bytes;
	near_counter_add(&d->called, 1);
	near_counter_add(&d->called_bytes, (int64_t)bytes);
	NEAR__TSAN_RELEASE(&d->calls);
	NEAR__TRY_WHILE(true) {
		if (try_push(d, d->slots->calls, head))
			return;
		if (near__slot_open(d->slots) == NEAR__NO_SLOT)
			break;
	}
	push_by_cas(d, head);
}

/* Threads that call all the time can share their CPUs with the worker, and put faster than it
 * frees: then it gets a turn. */
static void yield_sometimes(void)
{
	struct near__rcu_thread *mine = near__rcu_thread_own();

	if (!mine || mine->calls++ % CALLS_PER_CHECK == 0)
		syscall(SYS_sched_yield);
}

static void after_push(struct near_rcu *d, enum near__rcu_call_wakes least,
		       enum near__rcu_request how)
{
	uint32_t wakes = __atomic_load_n(&d->call_wakes, __ATOMIC_SEQ_CST);

	if (NEAR__UNLIKELY(wakes >= least))
		near__rcu_request(d, how);
	else if (NEAR__UNLIKELY(wakes == NEAR__RCU_BEHIND))
		yield_sometimes();
}

void near_rcu_call(struct near_rcu *d, struct near_rcu_head *head,
		   void (*function)(struct near_rcu_head *head), size_t bytes)
{
	callback_push(d, head, function, bytes);
	after_push(d, NEAR__RCU_NOT_LAZY, NEAR__RCU_SOON);
}

void near_rcu_call_lazy(struct near_rcu *d, struct near_rcu_head *head,
			void (*function)(struct near_rcu_head *head), size_t bytes)
{
	callback_push(d, head, function, bytes);
	after_push(d, NEAR__RCU_EACH_CALL, NEAR__RCU_LAZILY);
}

/* ---- objects without a head ---- */

struct retired {
	struct near_rcu_head head;
	void *object;
	void (*function)(void *object);
};

static void retired_run(struct near_rcu_head *head)
{
	struct retired *r = (struct retired *)head;

	r->function(r->object);
	free(r);
}

int near_rcu_retire(struct near_rcu *d, void *object, void (*function)(void *object), size_t bytes)
{
	struct retired *r = near__heap_zeroed(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->object = object;
	r->function = function;
	near_rcu_call(d, &r->head, retired_run, bytes);
	return 0;
}

/* ---- waiting for callbacks ---- */

/* Waits until a batch has ended that begins after this. */
static void wait_for_batch(struct near_rcu *d)
{
	uint64_t batch;
	uint32_t seen;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	batch = __atomic_load_n(&d->batches_begun, __ATOMIC_SEQ_CST) + 1;
	__atomic_fetch_add(&d->batch_waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		seen = __atomic_load_n(&d->batches_low, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&d->batches_done, __ATOMIC_ACQUIRE) >= batch)
			break;
		if (near__rcu_request(d, NEAR__RCU_NOW))
			near__rcu_work_here(d);
		else
			near__futex_sleep(&d->batches_low, seen, NEAR__FOREVER, false);
	}
	__atomic_fetch_sub(&d->batch_waiters, 1, __ATOMIC_RELAXED);
	NEAR__TSAN_ACQUIRE(&d->batches_done);
}

void near_rcu_barrier(struct near_rcu *d)
{
	near__rcu_check_outside(d, "near_rcu_barrier");
	if (near__rcu_works_for(d))
		near__die("near_rcu_barrier: called by a callback of the domain");
	wait_for_batch(d);
}

void near_rcu_call_bounded(struct near_rcu *d, struct near_rcu_head *head,
			   void (*function)(struct near_rcu_head *head), size_t bytes,
			   size_t max_bytes)
{
	struct near__rcu_thread *mine = near__rcu_thread_own();

	near_rcu_call(d, head, function, bytes);
	/* Without a block each call checks. */
	if ((mine && mine->calls++ % CALLS_PER_CHECK) || near__rcu_works_for(d))
		return;
	near__rcu_check_outside(d, "near_rcu_call_bounded");
	/* Once: what was pending has then run. A callback may call again. */
	if (near__rcu_pending_bytes(d) > max_bytes)
		wait_for_batch(d);
}

/* ---- grace periods that the worker begins ---- */

void near_rcu_synchronize_lazy(struct near_rcu *d)
{
	uint64_t period = near__rcu_next_period(d);
	uint32_t seen;

	near__rcu_check_outside(d, "near_rcu_synchronize_lazy");
	__atomic_fetch_add(&d->waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		seen = __atomic_load_n(&d->turns, __ATOMIC_SEQ_CST);
		if (near_rcu_poll(d, period))
			break;
		if (near__rcu_works_for(d) || near__rcu_request(d, NEAR__RCU_LAZILY))
			near__rcu_wait(d, period);
		else
			near__futex_sleep(&d->turns, seen, NEAR__FOREVER, false);
	}
	__atomic_fetch_sub(&d->waiters, 1, __ATOMIC_RELAXED);
}

uint64_t near_rcu_poll_start(struct near_rcu *d)
{
	uint64_t period = near__rcu_next_period(d);

	near__rcu_request(d, NEAR__RCU_SOON);
	return period;
}
