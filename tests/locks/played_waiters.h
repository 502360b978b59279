/* SPDX-License-Identifier: MIT */
/* Waiters for a near_mutex that the test plays. They are asleep, so each wake-up reaches its
 * waiter: the program is linked with --wrap=near__futex_wake. */
#ifndef NEARCPU_TESTS_PLAYED_WAITERS_H
#define NEARCPU_TESTS_PLAYED_WAITERS_H

#include "mutex_waiters.h"

int __real_near__futex_wake(uint32_t *word, int n, bool shared);
int __wrap_near__futex_wake(uint32_t *word, int n, bool shared);
int __wrap_near__futex_wake(uint32_t *word, int n, bool shared)
{
	__real_near__futex_wake(word, n, shared);
	return 1;
}

static inline void play(struct near_mutex *m, struct near__waiter *w, long waited_ns)
{
	struct near__bucket *b = near__lot_lock(m);

	*w = (struct near__waiter){
		.address = m,
		.space = NEAR__SPACE_MUTEX,
		.kind = LOCKER,
		.since = (uint64_t)(near__now(CLOCK_MONOTONIC) - waited_ns),
	};
	b->handoff_of = NULL; /* no handover was before */
	near__lot_append(b, w);
	w->word = NEAR__ASLEEP;
	near__lot_unlock(b);
}

static inline bool was_woken(struct near__waiter *w)
{
	return !w->queued && w->word & NEAR__WOKEN && w->token == DESIGNATED;
}

/* As the designated waker of a mutex that is reserved. */
static inline bool has_reservation(struct near_mutex *m, struct near__waiter *w)
{
	return was_woken(w) && (word_of(m) & ~(PARKED | AWAITED)) == (WAKING | RESERVED);
}

#endif
