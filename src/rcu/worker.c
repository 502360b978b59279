/* SPDX-License-Identifier: MIT */
/* near_rcu: the thread that runs the callbacks of a domain; src/rcu/rcu.h has the argument.
 *
 * A batch is what was pushed until a flip of `batch`. `request` is how soon the next one is to
 * begin; it only rises until the worker takes it. */
#include "rcu/rcu.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/futex.h"
#include "base/signals.h"
#include "parking/timeout.h"

/* With more than this a worker is behind. Two threads that call all the time beside it, on two
 * CPUs: a second takes 95 MB instead of 380, and the third no more (AMD EPYC, family 26). */
#define BEHIND_CALLS 500000
#define BEHIND_BYTES (UINT64_C(64) << 20)

/* ---- a batch ---- */

/* What is on a list moves to `running` under the lock that fork holds: the child finds each
 * callback once. */
static void worker_take(struct near_rcu *d, uint64_t *list)
{
	near_lock_lock(&near__rcu.lists);
	d->running = (struct near_rcu_head *)(uintptr_t)*list;
	/* Relaxed: others only load whether it is empty. */
	__atomic_store_n(list, 0, __ATOMIC_RELAXED);
	near_lock_unlock(&near__rcu.lists);
}

static void take_pushed(struct near_rcu *d)
{
	near_lock_lock(&near__rcu.lists);
	/* Acquire: pairs with the push. */
	d->taken = __atomic_exchange_n(&d->pushed, NULL, __ATOMIC_ACQUIRE);
	near_lock_unlock(&near__rcu.lists);
}

/* A child that is forked in the middle completes what was begun, whichever of the stores it finds,
 * see rcu_fork.c. */
static void worker_run(struct near_rcu *d)
{
	struct near_rcu_head *head;

	while ((head = d->running)) {
		d->next_ran = d->ran + 1;
		d->next_ran_bytes = d->ran_bytes + head->bytes;
		__atomic_store_n(&d->executing, head, __ATOMIC_RELEASE);
		__atomic_store_n(&d->running, head->next, __ATOMIC_RELEASE);
		head->function(head);
		__atomic_store_n(&d->ran_bytes, d->next_ran_bytes, __ATOMIC_RELEASE);
		__atomic_store_n(&d->ran, d->next_ran, __ATOMIC_RELEASE);
		__atomic_store_n(&d->executing, NULL, __ATOMIC_RELEASE);
	}
}

static void end_batch(struct near_rcu *d)
{
	NEAR__TSAN_RELEASE(&d->batches_done);
	__atomic_store_n(&d->batches_done, d->batches_begun, __ATOMIC_RELEASE);
	__atomic_fetch_add(&d->batches_low, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&d->batch_waiters, __ATOMIC_SEQ_CST))
		near__futex_wake(&d->batches_low, INT_MAX, false);
}

static void run_batch(struct near_rcu *d)
{
	uint64_t old = d->batch;

	__atomic_store_n(&d->batches_begun, d->batches_begun + 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&d->batch, 8 - old, __ATOMIC_SEQ_CST);
	take_pushed(d);
	near__rcu_wait(d, near__rcu_next_period(d));
	NEAR__TSAN_ACQUIRE(&d->calls);
	near_lock_lock(&near__rcu.lists);
	d->running = d->taken;
	d->taken = NULL;
	near_lock_unlock(&near__rcu.lists);
	worker_run(d);
	for (unsigned s = 0; near_percpu_next(d->slots, &s);) {
		worker_take(d, &near__rcu_slot(d, s)->calls[old / 8]);
		worker_run(d);
		s++;
	}
	end_batch(d);
}

bool near__rcu_has_calls(const struct near_rcu *d)
{
	if (__atomic_load_n(&d->pushed, __ATOMIC_RELAXED))
		return true;
	for (unsigned s = 0; near_percpu_next(d->slots, &s); s++) {
		const struct near__rcu_slot *slot = near__rcu_slot(d, s);

		if (__atomic_load_n(&slot->calls[0], __ATOMIC_RELAXED) ||
		    __atomic_load_n(&slot->calls[1], __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

/* No batch in progress and none needed. No batch begins between the loads, so no callback calls. */
bool near__rcu_is_idle(const struct near_rcu *d)
{
	uint64_t done = __atomic_load_n(&d->batches_done, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&d->batches_begun, __ATOMIC_SEQ_CST) == done &&
	       !near__rcu_has_calls(d) &&
	       __atomic_load_n(&d->batches_begun, __ATOMIC_SEQ_CST) == done;
}

/* ---- the worker ---- */

static uint32_t worker_requested(const struct near_rcu *d)
{
	return __atomic_load_n(&d->request, __ATOMIC_SEQ_CST);
}

/* Sleeps until more than `how` is requested, or until `end`. The futex compares with the value that
 * was checked: it does not wait if a request came since. */
static void sleep_while(struct near_rcu *d, enum near__rcu_request how, int64_t end)
{
	uint32_t seen;
	int64_t left;

	while ((seen = worker_requested(d)) <= how && (left = end - near__now(CLOCK_MONOTONIC)) > 0)
		near__futex_sleep(&d->request, seen, left, false);
}

static void sleep_until_requested(struct near_rcu *d)
{
	__atomic_store_n(&d->call_wakes, NEAR__RCU_EACH_CALL, __ATOMIC_SEQ_CST);
	near__fence();
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (near__rcu_has_calls(d))
		return;
	while (!worker_requested(d))
		near__futex_sleep(&d->request, NEAR__RCU_NOTHING, NEAR__FOREVER, false);
}

/* `since`: when the batch before this one began. */
static void wait_to_begin(struct near_rcu *d, int64_t since)
{
	int64_t interval = (int64_t)d->interval_us * 1000;

	if (!worker_requested(d))
		sleep_until_requested(d);
	if (worker_requested(d) == NEAR__RCU_LAZILY) {
		__atomic_store_n(&d->call_wakes, NEAR__RCU_NOT_LAZY, __ATOMIC_SEQ_CST);
		sleep_while(d, NEAR__RCU_LAZILY,
			    near__now(CLOCK_MONOTONIC) + (int64_t)d->lazy_interval_us * 1000);
	}
	__atomic_store_n(&d->call_wakes, NEAR__RCU_NO_CALL, __ATOMIC_SEQ_CST);
	sleep_while(d, NEAR__RCU_SOON, since + interval);
}

/* When calls wake nobody. Relaxed: it changes only how fast they are. */
static void note_behind(struct near_rcu *d)
{
	bool behind = near__rcu_pending_calls(d) > BEHIND_CALLS ||
		      near__rcu_pending_bytes(d) > BEHIND_BYTES;

	__atomic_store_n(&d->call_wakes, behind ? NEAR__RCU_BEHIND : NEAR__RCU_NO_CALL,
			 __ATOMIC_RELAXED);
}

static void set_works_in(struct near_rcu *d, uintptr_t thread)
{
	__atomic_store_n(&d->works_in, thread, __ATOMIC_RELAXED);
}

static void *worker_work(void *domain)
{
	struct near_rcu *d = domain;
	int64_t began = 0;

	prctl(PR_SET_NAME, "near_rcu");
	set_works_in(d, (uintptr_t)&near__self);
	while (wait_to_begin(d, began), __atomic_exchange_n(&d->request, NEAR__RCU_NOTHING,
							    __ATOMIC_SEQ_CST) != NEAR__RCU_STOP) {
		began = near__now(CLOCK_MONOTONIC);
		note_behind(d);
		run_batch(d);
		if (near__rcu_has_calls(d))
			near__rcu_request(d, NEAR__RCU_SOON);
	}
	set_works_in(d, 0);
	return NULL;
}

/* ---- starting it ---- */

/* With signals blocked in the new thread. */
static int worker_create(struct near_rcu *d)
{
	sigset_t old;
	pthread_t thread;
	int r, saved = errno;

	near__signals_block(&old);
	r = pthread_create(&thread, NULL, worker_work, d);
	near__signals_restore(&old);
	if (!r)
		d->thread = (uintptr_t)thread;
	errno = saved;
	return r;
}

/* There is no worker after all: wakes threads that slept because it was starting. */
static void end_start(struct near_rcu *d)
{
	__atomic_store_n(&d->worker, NEAR__RCU_ABSENT, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&d->batches_low, 1, __ATOMIC_SEQ_CST);
	near__futex_wake(&d->batches_low, INT_MAX, false);
	__atomic_fetch_add(&d->turns, 1, __ATOMIC_SEQ_CST);
	near__futex_wake(&d->turns, INT_MAX, false);
}

int near_rcu_start(struct near_rcu *d)
{
	uint32_t absent = NEAR__RCU_ABSENT;
	int r;

	if (d->flags & NEAR_RCU_NO_THREAD)
		return -EINVAL;
	if (!__atomic_compare_exchange_n(&d->worker, &absent, NEAR__RCU_STARTS, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	r = worker_create(d);
	if (r) {
		end_start(d);
		return -EAGAIN;
	}
	__atomic_store_n(&d->worker, NEAR__RCU_RUNS, __ATOMIC_RELEASE);
	return 0;
}

int near__rcu_request(struct near_rcu *d, enum near__rcu_request how)
{
	uint32_t was = worker_requested(d);

	while (was < how && !__atomic_compare_exchange_n(&d->request, &was, how, true,
							 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	if (__atomic_load_n(&d->worker, __ATOMIC_ACQUIRE) == NEAR__RCU_ABSENT)
		return near_rcu_start(d);
	if (was < how)
		near__futex_wake(&d->request, INT_MAX, false);
	return 0;
}

/* What was requested so far, this batch does. */
bool near__rcu_work_here(struct near_rcu *d)
{
	uint32_t absent = NEAR__RCU_ABSENT;

	if (!__atomic_compare_exchange_n(&d->worker, &absent, NEAR__RCU_STARTS, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	set_works_in(d, (uintptr_t)&near__self);
	__atomic_store_n(&d->request, NEAR__RCU_NOTHING, __ATOMIC_SEQ_CST);
	run_batch(d);
	set_works_in(d, 0);
	end_start(d);
	return true;
}

bool near_rcu_work(struct near_rcu *d)
{
	near__rcu_check_outside(d, "near_rcu_work");
	if (near__rcu_works_for(d))
		near__die("near_rcu_work: called by a callback of the domain");
	return (near__rcu_has_calls(d) || worker_requested(d)) && near__rcu_work_here(d);
}

void near__rcu_stop_worker(struct near_rcu *d)
{
	if (d->worker != NEAR__RCU_RUNS)
		return;
	near__rcu_request(d, NEAR__RCU_STOP);
	pthread_join((pthread_t)d->thread, NULL);
	d->worker = NEAR__RCU_ABSENT;
}
