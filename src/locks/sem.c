/* SPDX-License-Identifier: MIT */
/* near_sem: units, and a bit that says that somebody may sleep.
 *
 * Units and the bit never stand in the word together: who wants to sleep sets the bit where there
 * are no units, and a post that finds the bit goes to the queue. There, under the bucket's lock, it
 * gives its unit to the first sleeper; or, if all have left, clears the bit and adds the unit, in
 * one change. A sleeper enters the queue under that lock, if the bit still stands. So nobody sleeps
 * without the bit, and no post overlooks a sleeper.
 *
 * A signal handler may post, whatever it interrupted. If that was a section of the lot (lot.c), it
 * adds its unit and leaves the bit: the only way in which both stand in the word. The interrupted
 * thread, leaving its section, looks into the queue, and gives the unit to the first sleeper, if
 * nobody has taken it. A sleeper that enters the queue later sees the unit there. A futex in the
 * semaphore itself would need no lock; but units would not go to sleepers in their order, nor could
 * a token end one wait alone. To block signals in each section costs two system calls: a wait and a
 * post of two threads in turn took 4.2 us instead of 2.5. models/words.pml has this handler.
 *
 * A post accesses the semaphore for the last time by the change that adds the unit, or, if it gives
 * it away, before it wakes the sleeper. */
#include <nearcpu/sem.h>

#include <errno.h>

#include "parking/lot.h"
#include "ground/tsan.h"

#define SLEEPERS 1u
#define UNIT 2u

static bool change(struct near_sem *s, uint32_t *seen, uint32_t next, int order)
{
	return __atomic_compare_exchange_n(&s->word, seen, next, true, order, __ATOMIC_RELAXED);
}

static uint32_t look(const struct near_sem *s)
{
	return __atomic_load_n(&s->word, __ATOMIC_RELAXED);
}

bool near_sem_try_wait(struct near_sem *s)
{
	uint32_t seen = look(s);

	/* Acquire: pairs with the release in near_sem_post. */
	while (seen >= UNIT)
		if (change(s, &seen, seen - UNIT, __ATOMIC_ACQUIRE)) {
			NEAR__TSAN_ACQUIRE(s);
			return true;
		}
	return false;
}

/* True: the bit is set. False: there is a unit. */
static bool announce(struct near_sem *s)
{
	uint32_t seen = look(s);

	while (seen < UNIT)
		if (seen & SLEEPERS || change(s, &seen, seen | SLEEPERS, __ATOMIC_RELAXED))
			return true;
	return false;
}

static bool enter(struct near_sem *s, struct near__waiter *w)
{
	struct near__bucket *b = near__lot_lock(s);
	bool still = look(s) == SLEEPERS;

	if (still)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return still;
}

static int wait(struct near_sem *s, const struct near__limit *l)
{
	struct near__waiter w = {.address = s, .space = NEAR__SPACE_SEM};

	while (!near_sem_try_wait(s))
		if (announce(s) && enter(s, &w))
			return near__lot_sleep(&w, l);
	return 0;
}

int near_sem_wait_until(struct near_sem *s, int clock, const struct timespec *deadline,
			struct near_cancel *cancel)
{
	struct near__limit l;
	int r = near__limit_set(&l, clock, deadline, cancel);

	return r ? r : wait(s, &l);
}

void near_sem_wait(struct near_sem *s)
{
	wait(s, &NEAR__NO_LIMIT);
}

/* Of this semaphore, or of all in the bucket: as many as there are units. Who is taken acquires by
 * its wake-up what this thread acquired with the unit. */
static struct near__waiter *settle(struct near__bucket *b, const void *s)
{
	struct near__waiter *taken = NULL, **end = &taken, *w, *next;

	for (w = b->first; w; w = next) {
		next = w->next;
		if (w->space != NEAR__SPACE_SEM || (s && w->address != s) ||
		    !near_sem_try_wait((struct near_sem *)(uintptr_t)w->address))
			continue;
		near__lot_take(b, w);
		w->next = NULL;
		*end = w;
		end = &w->next;
	}
	return taken;
}

/* Release: pairs with the acquire in near_sem_try_wait. */
static int add(struct near_sem *s, uint32_t cleared)
{
	uint32_t seen = look(s);

	do
		if (seen >> 1 == NEAR_SEM_MAX)
			return -EOVERFLOW;
	while (!change(s, &seen, (seen & ~cleared) + UNIT, __ATOMIC_RELEASE));
	return 0;
}

/* The bit is cleared under the lock alone. Where another post did so before this one had the lock,
 * the unit is added all the same. */
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
	if (w)
		near__lot_wake(w);
	return r;
}

int near_sem_post(struct near_sem *s)
{
	uint32_t seen = look(s);

	NEAR__TSAN_RELEASE(s);
	do {
		if (seen & SLEEPERS)
			return near__lot_defer(s, settle) ? add(s, 0) : give(s);
		if (seen >> 1 == NEAR_SEM_MAX)
			return -EOVERFLOW;
		/* Release: pairs with the acquire in near_sem_try_wait. */
	} while (!change(s, &seen, seen + UNIT, __ATOMIC_RELEASE));
	return 0;
}
