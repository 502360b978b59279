/* SPDX-License-Identifier: MIT */
/* near_sem: units, and a flag for sleepers.
 *
 * The word has units or the flag, never both. A thread that wants to sleep sets the flag while
 * there are no units, and a post that finds the flag goes to the queue. There, under the bucket's
 * lock, it gives its unit to the first sleeper; or, if all have left, clears the flag and adds the
 * unit, in one change. A sleeper enters the queue under that lock, if the flag is still set. So no
 * thread sleeps without the flag, and no post overlooks a sleeper.
 *
 * A signal handler may post, whatever it interrupted. If that was a section of the lot (lot.c), the
 * handler adds its unit and leaves the flag set: the only way to have both. When the interrupted
 * thread leaves its section, it searches the queue, and gives the unit to the first sleeper if no
 * thread has taken it. A sleeper that enters the queue later finds the unit. models/words.pml has
 * this handler. What was not chosen: a futex in the semaphore would need no lock, but would not
 * give units to sleepers in their order, nor could a token end a single wait; to block signals in
 * each section takes two system calls: a wait and a post of two threads in turn took 4.2 us instead
 * of 2.5.
 *
 * A post accesses the semaphore for the last time by the change that adds the unit, or, if it gives
 * the unit away, before it wakes the sleeper. */
#include <nearcpu/sem.h>

#include <errno.h>

#include "ground/cas.h"
#include "parking/lot.h"
#include "ground/tsan.h"

#define SLEEPERS 1u
#define UNIT 2u

bool near_sem_try_wait(struct near_sem *s)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	/* Acquire: pairs with the release in near_sem_post. */
	while (seen >= UNIT)
		if (NEAR__CAS(&s->word, &seen, seen - UNIT, __ATOMIC_ACQUIRE)) {
			NEAR__TSAN_ACQUIRE(s);
			return true;
		}
	return false;
}

/* Sets the flag. False: there is a unit. */
static bool announce(struct near_sem *s)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	while (seen < UNIT)
		if (seen & SLEEPERS ||
		    NEAR__CAS(&s->word, &seen, seen | SLEEPERS, __ATOMIC_RELAXED))
			return true;
	return false;
}

static bool enter(struct near_sem *s, struct near__waiter *w)
{
	struct near__bucket *b = near__lot_lock(s);
	bool still = NEAR__LOAD_RELAXED(&s->word) == SLEEPERS;

	if (still)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return still;
}

static int wait(struct near_sem *s, const struct near__timeout *timeout)
{
	struct near__waiter w = {.address = s, .space = NEAR__SPACE_SEM};

	while (!near_sem_try_wait(s))
		if (announce(s) && enter(s, &w))
			return near__lot_sleep(&w, timeout);
	return 0;
}

int near_sem_wait_until(struct near_sem *s, int clock, const struct timespec *deadline,
			struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	return r ? r : wait(s, &timeout);
}

void near_sem_wait(struct near_sem *s)
{
	wait(s, &NEAR__NO_TIMEOUT);
}

/* Takes as many sleepers as there are units, of this semaphore or (NULL) of all in the bucket. A
 * sleeper acquires with its wake-up what this thread acquired with the unit. */
static struct near__waiter *settle(struct near__bucket *b, const void *s)
{
	struct near__taken taken = {.first = NULL, .end = &taken.first};
	struct near__waiter *w, *next;

	for (w = b->first; w; w = next) {
		next = w->next;
		if (w->space != NEAR__SPACE_SEM || (s && w->address != s) ||
		    !near_sem_try_wait((struct near_sem *)(uintptr_t)w->address))
			continue;
		near__lot_take_into(&taken, b, w);
	}
	return taken.first;
}

/* Release: pairs with the acquire in near_sem_try_wait. */
static int add(struct near_sem *s, uint32_t cleared)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	do
		if (seen >> 1 == NEAR_SEM_MAX)
			return -EOVERFLOW;
	while (!NEAR__CAS(&s->word, &seen, (seen & ~cleared) + UNIT, __ATOMIC_RELEASE));
	return 0;
}

/* The flag is cleared under the lock alone. If another post has cleared it before this one had the
 * lock, the unit is added nevertheless. */
static int give(struct near_sem *s)
{
	struct near__bucket *b = near__lot_lock(s);
	struct near__waiter *w = near__lot_first(b, s, NEAR__SPACE_SEM);
	int r = 0;

	if (w)
		near__lot_take(b, w);
	else
		r = add(s, SLEEPERS);
	near__lot_unlock(b);
	near__lot_wake(w);
	return r;
}

int near_sem_post(struct near_sem *s)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	NEAR__TSAN_RELEASE(s);
	do {
		if (seen & SLEEPERS)
			return near__lot_defer(s, settle) ? add(s, 0) : give(s);
		if (seen >> 1 == NEAR_SEM_MAX)
			return -EOVERFLOW;
		/* Release: pairs with the acquire in near_sem_try_wait. */
	} while (!NEAR__CAS(&s->word, &seen, seen + UNIT, __ATOMIC_RELEASE));
	return 0;
}
