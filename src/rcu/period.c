/* SPDX-License-Identifier: MIT */
/* near_rcu: grace periods; src/rcu/rcu.h has the argument. */
#include "rcu/rcu.h"

#include <errno.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/probe.h"
#include "base/spin.h"
#include "parking/timeout.h"

#define REPORT_AFTER_NS INT64_C(10000000000)

static void period_fence(void)
{
	near__fence();
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- one grace period, by one thread at a time ---- */

/* What sequences have counted in, in a phase that no sequence counts in any more. */
static uint64_t counted_in(const struct near_rcu *d, unsigned phase)
{
	uint64_t in = 0;

	for (unsigned s = 0; near_percpu_next(d->slots, &s); s++)
		if (!near_percpu_is_fallback(s))
			in += near__rcu_count(&near__rcu_slot(d, s)->in[phase], __ATOMIC_RELAXED);
	return in;
}

/* The sections of the phase that go on; `in`: of sequences. Acquire: pairs with the release of a
 * reader that counts out. */
static uint64_t sections_left(const struct near_rcu *d, unsigned phase, uint64_t in)
{
	uint64_t out = 0;

	for (unsigned s = 0; near_percpu_next(d->slots, &s); s++) {
		const struct near__rcu_slot *slot = near__rcu_slot(d, s);

		if (near_percpu_is_fallback(s))
			in += __atomic_load_n(&slot->in[phase], __ATOMIC_SEQ_CST);
		out += near__rcu_count(&slot->out[phase], __ATOMIC_ACQUIRE);
	}
	if ((int64_t)(in - out) < 0)
		near__die("near_rcu_exit: more sections have ended than begun");
	return in - out;
}

static bool is_drained(const struct near_rcu *d, unsigned phase, uint64_t in)
{
	return sections_left(d, phase, in) == 0;
}

static void sleep_until_drained(struct near_rcu *d, unsigned phase, uint64_t in)
{
	int64_t began = near__now(CLOCK_MONOTONIC), report = REPORT_AFTER_NS;

	/* In a child rcu_fork.c clears it: the thread that slept here is the parent's. Release:
	 * pairs with the acquire in near_rcu_stats, which then loads the time. */
	__atomic_store_n(&d->waits_since, (uint64_t)began, __ATOMIC_RELAXED);
	__atomic_store_n(&d->slept, d->slept + 1, __ATOMIC_RELEASE);
	for (;;) {
		__atomic_store_n(&d->sleeps, 1, __ATOMIC_SEQ_CST);
		period_fence();
		if (is_drained(d, phase, in))
			break;
		near__futex_sleep(&d->sleeps, 1, report, false);
		if (near__now(CLOCK_MONOTONIC) - began >= report) {
			near__rcu_report(d, phase, sections_left(d, phase, in));
			report *= 2;
		}
	}
	__atomic_store_n(&d->sleeps, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&d->waits_since, 0, __ATOMIC_RELAXED);
}

static void period_drive(struct near_rcu *d)
{
	uint64_t period = d->begun + 1, in;
	unsigned old = near__rcu_index(d, d->phase);

	near__probe(NEAR__PROBE_PERIOD, d, period);
	__atomic_store_n(&d->begun, period, __ATOMIC_SEQ_CST);
	period_fence();
	__atomic_store_n(&d->phase, (uintptr_t)&d->slots->out[!old], __ATOMIC_SEQ_CST);
	period_fence();
	in = counted_in(d, old);
	if (!is_drained(d, old, in) && !NEAR__SPIN_UNTIL(is_drained(d, old, in)) &&
	    !NEAR__YIELD_UNTIL(is_drained(d, old, in)))
		sleep_until_drained(d, old, in);
	/* Not by `done`: what is stored to an atomic replaces what was released there. */
	NEAR__TSAN_ACQUIRE(&d->slots);
	/* Again: a handler may have forked, and this is the child. */
	__atomic_store_n(&d->begun, period, __ATOMIC_SEQ_CST);
	/* Release: a thread that finds it has waited, too. */
	__atomic_store_n(&d->done, period, __ATOMIC_RELEASE);
	near__probe(NEAR__PROBE_PERIOD_END, d, period);
}

/* ---- threads that wait ---- */

uint64_t near__rcu_next_period(const struct near_rcu *d)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&d->begun, __ATOMIC_SEQ_CST) + 1;
}

bool near_rcu_poll(const struct near_rcu *d, uint64_t period)
{
	if (__atomic_load_n(&d->done, __ATOMIC_ACQUIRE) < period)
		return false;
	NEAR__TSAN_ACQUIRE(&d->slots);
	return true;
}

/* Drives a grace period, unless another thread does. */
static bool try_drive(struct near_rcu *d, uint64_t period)
{
	uint32_t no = 0;

	/* Acquire, release: the state passes from driver to driver. */
	if (!__atomic_compare_exchange_n(&d->drives, &no, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	if (!near_rcu_poll(d, period))
		period_drive(d);
	/* In this order: a thread that has loaded `turns` and then finds that this one drives is
	 * woken, or `turns` changes before it sleeps. Sequentially consistent: one that counts
	 * itself after the load of `waiters` finds that no thread drives. */
	__atomic_store_n(&d->drives, 0, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&d->turns, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&d->waiters, __ATOMIC_SEQ_CST))
		near__futex_wake(&d->turns, INT_MAX, false);
	return true;
}

void near__rcu_wait(struct near_rcu *d, uint64_t period)
{
	uint32_t seen;

	while (!near_rcu_poll(d, period)) {
		if (try_drive(d, period))
			continue;
		__atomic_fetch_add(&d->waiters, 1, __ATOMIC_SEQ_CST);
		seen = __atomic_load_n(&d->turns, __ATOMIC_SEQ_CST);
		if (!near_rcu_poll(d, period) && __atomic_load_n(&d->drives, __ATOMIC_SEQ_CST))
			near__futex_sleep(&d->turns, seen, NEAR__FOREVER, false);
		__atomic_fetch_sub(&d->waiters, 1, __ATOMIC_RELAXED);
	}
}

void near_rcu_wait(struct near_rcu *d, uint64_t period)
{
	near__rcu_check_outside(d, "near_rcu_wait");
	near__rcu_wait(d, period);
}

void near_rcu_synchronize(struct near_rcu *d)
{
	near__rcu_check_outside(d, "near_rcu_synchronize");
	near__rcu_wait(d, near__rcu_next_period(d));
}
