/* SPDX-License-Identifier: MIT */
/* How a waiter of the parking lot sleeps, and how it leaves the queue. lot.c has the argument. */
#define _GNU_SOURCE
#include <errno.h>

#include "base/probe.h"
#include "parking/lot.h"

/* The futex does not support CLOCK_BOOTTIME, and the clocks that it supports stop or jump when the
 * machine is suspended. So a waiter reads the clock at this interval, and returns at most this late
 * after the machine has resumed. */
#define BOOTTIME_INTERVAL INT64_C(1000000000)

/* Acquire: pairs with the release in near__lot_wake. */
static uint32_t waiter_word(const struct near__waiter *w)
{
	return __atomic_load_n(&w->word, __ATOMIC_ACQUIRE);
}

/* The time at which FUTEX_WAIT returns: of CLOCK_REALTIME, or else of CLOCK_MONOTONIC. */
static int64_t return_at(const struct near__timeout *t)
{
	int64_t left;

	if (t->clock != CLOCK_BOOTTIME)
		return t->deadline < 0 ? 0 : t->deadline;
	left = t->deadline - near__now(CLOCK_BOOTTIME);
	return near__now(CLOCK_MONOTONIC) + (left < BOOTTIME_INTERVAL ? left : BOOTTIME_INTERVAL);
}

int near__futex_wait(uint32_t *word, uint32_t value, const struct near__timeout *t, bool shared)
{
	int op = NEAR__FUTEX_WAIT_BITSET | (shared ? 0 : NEAR__FUTEX_PRIVATE), r;
	bool timed = t->deadline != NEAR__NEVER, boottime = timed && t->clock == CLOCK_BOOTTIME;
	int64_t until = NEAR__FOREVER;

	if (boottime && near__now(CLOCK_BOOTTIME) >= t->deadline)
		return -ETIMEDOUT;
	if (timed) {
		until = return_at(t);
		op |= t->clock == CLOCK_REALTIME ? NEAR__FUTEX_CLOCK_REALTIME : 0;
	}
	r = near__futex(word, op, value, until);
	if (r == -ETIMEDOUT && !boottime)
		return r;
	return r == -EINTR && t->interruptible ? r : 0;
}

/* One FUTEX_WAIT, with other waiters, unless this one is woken. Acquire: a waiter that finds the
 * count from after its wake-up finds that it is woken. */
static int group_sleep(const struct near__waiter *w, const struct near__timeout *t)
{
	uint32_t count = __atomic_load_n(w->group, __ATOMIC_ACQUIRE);

	return waiter_word(w) ? 0 : near__futex_wait(w->group, count, t, false);
}

/* One FUTEX_WAIT, unless the word has changed since the caller loaded it. 0: the caller is to load
 * it again. */
static int futex_sleep(struct near__waiter *w, uint32_t seen, const struct near__timeout *t)
{
	uint32_t asleep = seen | NEAR__ASLEEP;
	int r;

	if (w->group)
		return group_sleep(w, t);
	/* Relaxed: the caller loads the bits again, by acquire. */
	if (!__atomic_compare_exchange_n(&w->word, &seen, asleep, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return 0;
	r = near__futex_wait(&w->word, asleep, t, false);
	__atomic_fetch_and(&w->word, ~(uint32_t)NEAR__ASLEEP, __ATOMIC_RELAXED);
	return r;
}

/* Locks the bucket of the waiter, which can be moved until the lock is held. */
static struct near__bucket *lock_own(struct near__waiter *w)
{
	for (;;) {
		const void *address = __atomic_load_n(&w->address, __ATOMIC_RELAXED);
		struct near__bucket *b = near__lot_lock(address);

		/* Relaxed: only an equal value is used, and then the lock orders it. */
		if (__atomic_load_n(&w->address, __ATOMIC_RELAXED) == address)
			return b;
		near__lot_unlock(b);
	}
}

bool near__lot_leave(struct near__waiter *w)
{
	struct near__bucket *b = lock_own(w);
	bool queued = w->queued;
	uint32_t seen;

	if (queued) {
		near__lot_take(b, w);
		if (w->left)
			w->left(w, near__lot_first(b, w->address, w->space));
	}
	near__lot_unlock(b);
	while (!queued && !((seen = waiter_word(w)) & NEAR__WOKEN))
		futex_sleep(w, seen, &NEAR__NO_TIMEOUT);
	return queued;
}

/* When a waiter next checks that the holder exists. The interval doubles: a wait of a day has
 * twenty checks, and a holder that has ended is found before the wait is twice as long. */
struct checks {
	int64_t at, after;
};

#define FIRST_CHECK_NS 100000000

/* One FUTEX_WAIT without a deadline, until the next check at most. */
static int futex_sleep_and_check(struct near__waiter *w, uint32_t seen, struct checks *next)
{
	struct near__timeout until = {.deadline = next->at, .clock = CLOCK_MONOTONIC};
	int r = futex_sleep(w, seen, &until);

	if (r != -ETIMEDOUT)
		return r;
	next->after *= 2;
	next->at = near__now(CLOCK_MONOTONIC) + next->after;
	return w->check(w) ? -EAGAIN : 0;
}

static int sleep_until_woken(struct near__waiter *w, const struct near__timeout *t)
{
	struct checks next = {0, FIRST_CHECK_NS};
	/* After a signal handler with SA_RESTART the kernel resumes only a wait without a timer. So
	 * a wait that handlers may end has none here. */
	bool checks = w->check && t->deadline == NEAR__NEVER && !t->interruptible;
	uint32_t seen;
	int r = 0;

	if (checks)
		next.at = near__now(CLOCK_MONOTONIC) + FIRST_CHECK_NS;
	while (!((seen = waiter_word(w)) & NEAR__WOKEN) && !r)
		if (seen & NEAR__CANCELLED)
			r = -ECANCELED;
		else
			r = checks ? futex_sleep_and_check(w, seen, &next)
				   : futex_sleep(w, seen, t);
	return seen & NEAR__WOKEN ? 0 : r;
}

int near__lot_sleep(struct near__waiter *w, const struct near__timeout *t)
{
	struct near__cancel_wait wait;
	int r = t->cancel ? near__cancel_join(t->cancel, &wait, &w->word) : 0;

	near__probe(NEAR__PROBE_SLEEP, w, 0);
	near__probe(NEAR__PROBE_LOCK_WAIT, NULL, 0);
	if (!r)
		r = sleep_until_woken(w, t);
	near__probe(NEAR__PROBE_LOCK_END, NULL, (uint64_t)r);
	near__probe(NEAR__PROBE_WOKEN, w, (uint64_t)r);
	if (t->cancel)
		near__cancel_leave(t->cancel, &wait);
	if (r && near__lot_leave(w))
		return r;
	NEAR__TSAN_ACQUIRE(&w->word);
	return 0;
}

/* Whether a sleep of `ns` ends before the deadline. A negative one is long past. */
static bool ends_before(const struct near__timeout *t, int64_t ns)
{
	return t->deadline == NEAR__NEVER || t->deadline > near__now(t->clock) + ns;
}

int near__lot_sleep_for(struct near__waiter *w, const struct near__timeout *t, int64_t ns)
{
	struct near__timeout until = *t;
	int r;

	if (!ends_before(t, ns))
		return near__lot_sleep(w, t);
	until.clock = CLOCK_MONOTONIC;
	until.deadline = near__now(CLOCK_MONOTONIC) + ns;
	r = near__lot_sleep(w, &until);
	return r == -ETIMEDOUT ? -EAGAIN : r;
}
