/* SPDX-License-Identifier: MIT */
/* near_cancel: a flag, and a list of the waits that it ends.
 *
 * A wait joins the list before it first sleeps, under the lock under which the flag is set: either
 * the wait finds the flag, or the thread that sets the flag finds the wait. That thread takes the
 * wait off the list and sets NEAR__CANCELLED in its word, so that the word differs from what
 * FUTEX_WAIT compares with. So the waiter, asleep or just before, finds the bit.
 *
 * The lock is that of the token's bucket in the parking lot, which is free in a forked child. The
 * waits that a child finds in the list are its parent's, on stacks that now belong to others: so
 * the list carries the number of forks between this process and the first, and counts as empty if
 * its number differs. */
#include <nearcpu/cancel.h>

#include <errno.h>

#include "parking/cancel.h"
#include "parking/lot.h"

/* Futexes that are woken after the lock is released. */
#define BATCH 16

static struct near__bucket *lock_list(struct near_cancel *c)
{
	struct near__bucket *b = near__lot_lock(c);

	if (c->forks != near__lot.forks) {
		c->waits = NULL;
		c->forks = near__lot.forks;
	}
	return b;
}

/* Takes up to BATCH waits off the list and cancels them. Returns how many are asleep. */
static unsigned cancel_batch(struct near_cancel *c, uint32_t *asleep[BATCH])
{
	unsigned n = 0;

	while (c->waits && n < BATCH) {
		struct near__cancel_wait *wait = c->waits;
		uint32_t *word = wait->word;

		c->waits = wait->next;
		if (wait->next)
			wait->next->link = &c->waits;
		wait->link = NULL;
		/* Relaxed: a waiter that finds the bit then takes the lock, to leave the list. */
		if (__atomic_fetch_or(word, NEAR__CANCELLED, __ATOMIC_RELAXED) & NEAR__ASLEEP)
			asleep[n++] = word;
	}
	return n;
}

void near_cancel_set(struct near_cancel *c)
{
	uint32_t *asleep[BATCH];
	unsigned n;

	do {
		struct near__bucket *b = lock_list(c);

		NEAR__TSAN_RELEASE(&c->is_set);
		/* Release: pairs with the acquire in near_cancel_is_set. Not a store, for which
		 * valgrind's tools would report a race with that load. */
		__atomic_exchange_n(&c->is_set, 1, __ATOMIC_RELEASE);
		n = cancel_batch(c, asleep);
		near__lot_unlock(b);
		for (unsigned i = 0; i < n; i++)
			near__futex_wake(asleep[i], 1, false);
	} while (n == BATCH);
}

void near_cancel_reset(struct near_cancel *c)
{
	*c = (struct near_cancel)NEAR_CANCEL_INIT;
}

int near__cancel_join(struct near_cancel *c, struct near__cancel_wait *wait, uint32_t *word)
{
	struct near__bucket *b;
	bool is_set;

	wait->word = word;
	wait->link = NULL;
	if (near_cancel_is_set(c))
		return -ECANCELED;
	b = lock_list(c);
	is_set = c->is_set;
	if (!is_set) {
		wait->next = c->waits;
		wait->link = &c->waits;
		if (wait->next)
			wait->next->link = &wait->next;
		c->waits = wait;
	}
	near__lot_unlock(b);
	return is_set ? -ECANCELED : 0;
}

void near__cancel_leave(struct near_cancel *c, struct near__cancel_wait *wait)
{
	struct near__bucket *b = lock_list(c);

	if (wait->link) {
		*wait->link = wait->next;
		if (wait->next)
			wait->next->link = wait->link;
	}
	near__lot_unlock(b);
}
