/* SPDX-License-Identifier: MIT */
/* A waiter's sleep, and how it leaves the queue; lot.c has the argument. */
#include <errno.h>

#include "lot.h"
#include "ground/tsan.h"

/* Acquire: pairs with the release in near__lot_wake. */
static uint32_t word_of(const struct near__waiter *w)
{
	return __atomic_load_n(&w->word, __ATOMIC_ACQUIRE);
}

/* One sleep, unless the word has changed since it was seen. 0: look again. */
static int doze(struct near__waiter *w, uint32_t seen, const struct near__limit *l)
{
	uint32_t asleep = seen | NEAR__ASLEEP;
	int r;

	/* Relaxed: the bits are looked at again by acquire. */
	if (!__atomic_compare_exchange_n(&w->word, &seen, asleep, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return 0;
	r = near__futex_wait(&w->word, asleep, l, false);
	__atomic_fetch_and(&w->word, ~(uint32_t)NEAR__ASLEEP, __ATOMIC_RELAXED);
	return r;
}

/* The bucket of the address that the waiter is on when the lock is held. */
static struct near__bucket *lock_own(struct near__waiter *w)
{
	for (;;) {
		const void *address = __atomic_load_n(&w->address, __ATOMIC_RELAXED);
		struct near__bucket *b = near__lot_lock(address);

		/* Relaxed: it matters only if it is still the same, and then the lock is its. */
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
	while (!queued && !((seen = word_of(w)) & NEAR__WOKEN))
		doze(w, seen, &NEAR__NO_LIMIT);
	return queued;
}

/* When a waiter is next to check what it waits for. The time between doubles: so a wait of a day
 * has twenty checks, and what has gone wrong since the last one is found before the wait is twice
 * as long. */
struct checks {
	int64_t at, after;
};

#define FIRST_CHECK_NS 100000000

/* One sleep without a deadline, until the next check at most. */
static int doze_and_check(struct near__waiter *w, uint32_t seen, struct checks *next)
{
	struct near__limit until = {.deadline = next->at, .clock = CLOCK_MONOTONIC};
	int r = doze(w, seen, &until);

	if (r != -ETIMEDOUT)
		return r;
	w->check(w);
	next->after *= 2;
	next->at = near__now(CLOCK_MONOTONIC) + next->after;
	return 0;
}

static int sleep_until_woken(struct near__waiter *w, const struct near__limit *l)
{
	struct checks next = {0, FIRST_CHECK_NS};
	/* The kernel resumes a sleep after a signal handler with SA_RESTART only if it has no
	 * timer. So one that a handler may end has none here. */
	bool checks = w->check && l->deadline == NEAR__NEVER && !l->interruptible;
	uint32_t seen;
	int r = 0;

	if (checks)
		next.at = near__now(CLOCK_MONOTONIC) + FIRST_CHECK_NS;
	while (!((seen = word_of(w)) & NEAR__WOKEN) && !r)
		if (seen & NEAR__POKED)
			r = -ECANCELED;
		else
			r = checks ? doze_and_check(w, seen, &next) : doze(w, seen, l);
	return seen & NEAR__WOKEN ? 0 : r;
}

int near__lot_sleep(struct near__waiter *w, const struct near__limit *l)
{
	struct near__cancel_wait wait;
	int r = l->cancel ? near__cancel_join(l->cancel, &wait, &w->word) : 0;

	if (!r)
		r = sleep_until_woken(w, l);
	if (l->cancel)
		near__cancel_leave(l->cancel, &wait);
	if (r && near__lot_leave(w))
		return r;
	NEAR__TSAN_ACQUIRE(&w->word);
	return 0;
}
