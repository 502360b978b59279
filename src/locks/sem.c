/* SPDX-License-Identifier: MIT */
/* near_sem: units, and a flag for sleepers.
 *
 * A unit goes to the first thread that takes it, as long as that keeps no sleeper waiting for long:
 * a thread that runs takes it immediately, a sleeper has to be woken. So a post adds its unit and
 * wakes the first sleeper, the designated waker, which then competes. Or, if near__lot_is_due, it
 * hands its unit over to that sleeper.
 *
 * The flag is set while threads are in the queue, or it was left by threads that gave up. A sleeper
 * sets it and enters the queue under the bucket's lock, while there is no unit. A post that finds
 * the flag adds its unit under that lock, and clears the flag if it leaves the queue empty. A post
 * that does not find it adds its unit in one change, which fails if the flag was set before. So no
 * thread sleeps without the flag, and no post overlooks a sleeper.
 *
 * While threads are in the queue, there are at least as many designated wakers as units:
 *
 *   - There are no units when a thread enters the queue.
 *   - A post that adds a unit designates the first sleeper; except that one designated waker is
 *     enough for the first unit. The bucket records that there is one (`waking`): the last one that
 *     was designated, until any designated waker of the semaphore takes the lock. Two semaphores of
 *     a bucket overwrite each other's record: then a post wakes a sleeper too many.
 *   - A designated waker takes the lock, erases the record, and takes a unit; or there is none, and
 *     it enters the queue again, sorted by its age. It does not give up before: a deadline that has
 *     passed ends its next sleep.
 *
 * So if designated wakers find no unit, running threads have taken them all, and their posts find
 * the flag.
 *
 * A sleeper that gives up leaves the queue, and then takes a unit if there is one, as a running
 * thread does: the designated waker may be delayed for longer than the wait.
 *
 * A signal handler may post, whatever it interrupted. If that was a section of the lot (lot.c), the
 * handler adds its unit and designates no sleeper. When the interrupted thread leaves its section,
 * it searches the queue, and gives the unit to the first sleeper if no thread has taken it. A
 * sleeper that enters the queue later finds the unit. models/words.pml has this handler. What was
 * not chosen: a futex in the semaphore would need no lock, but would not give units to sleepers in
 * their order, nor could a token end a single wait; to block signals in each section takes two
 * system calls: a wait and a post of two threads in turn took 4.2 us instead of 2.5.
 *
 * A post accesses the semaphore for the last time by the change that adds the unit, or, if it hands
 * the unit over, before it wakes the sleeper. */
#include <nearcpu/sem.h>

#include <errno.h>

#include "ground/cas.h"
#include "parking/lot.h"
#include "ground/spin.h"
#include "state.h"

#define SLEEPERS 1u
#define UNIT 2u

/* Longer than NEAR__SPIN_NS: with 600 ns instead of 160, two threads took a unit 2.0 times as often
 * to hold it for 1 ns, and 1.14 times to hold it for 100 ns; eight threads 1.9 times for 1 ns
 * (Intel Xeon, Granite Rapids class, 2 CPUs). */
#define FIRST_PAUSE_NS 600

/* What a waker passes to a sleeper. */
#define DESIGNATED 1
#define HANDOFF 2

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

/* Takes a unit, or else sets the flag. */
static bool take_or_announce(struct near_sem *s)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	/* Acquire: pairs with the release in near_sem_post. */
	while (seen != SLEEPERS &&
	       !NEAR__CAS(&s->word, &seen, seen < UNIT ? SLEEPERS : seen - UNIT, __ATOMIC_ACQUIRE))
		;
	return seen >= UNIT;
}

/* Takes a unit, or else enters the queue. */
static bool take_or_enter(struct near_sem *s, struct near__waiter *w, bool designated)
{
	struct near__bucket *b = near__lot_lock(s);
	bool taken = take_or_announce(s);

	if (designated && b->waking == s)
		b->waking = NULL;
	if (!taken && designated)
		near__lot_insert(b, w);
	else if (!taken)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return taken;
}

static int take_after_sleeping(struct near_sem *s, struct near__waiter *w,
			       const struct near__timeout *timeout)
{
	bool designated = false;
	int r = 0;

	while (!r && !take_or_enter(s, w, designated)) {
		r = near__lot_sleep(w, timeout);
		if (!r && w->token == HANDOFF)
			break;
		designated = true;
	}
	return r && near_sem_try_wait(s) ? 0 : r;
}

static int wait_slow(struct near_sem *s, const struct near__timeout *timeout)
{
	struct near__waiter w = {.address = s, .space = NEAR__SPACE_SEM};
	int r = 0;

	near__pause_for(FIRST_PAUSE_NS);
	if (near_sem_try_wait(s) || NEAR__SPIN_UNTIL(near_sem_try_wait(s)))
		return 0;
	w.since = (uint64_t)near__now(CLOCK_MONOTONIC);
	if (!NEAR__YIELD_UNTIL(near_sem_try_wait(s)))
		r = take_after_sleeping(s, &w, timeout);
	if (!r)
		NEAR__TSAN_ACQUIRE(s);
	return r;
}

int near_sem_wait_until(struct near_sem *s, int clock, const struct timespec *deadline,
			struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	if (r || near_sem_try_wait(s))
		return r;
	return wait_slow(s, &timeout);
}

void near_sem_wait(struct near_sem *s)
{
	if (!near_sem_try_wait(s))
		wait_slow(s, &NEAR__NO_TIMEOUT);
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
		w->token = HANDOFF;
	}
	return taken.first;
}

/* While there is a designated waker, a thread checks the age of the first sleeper at one of this
 * many posts: the waker may take long to run. */
#define POSTS_PER_CHECK 32

static bool is_time_to_check(void)
{
	struct near__locks_thread *mine = near__locks_thread_own();

	return !mine || ++mine->posts % POSTS_PER_CHECK == 0;
}

/* Takes the sleeper that the post wakes out of the queue; NULL: none. */
static struct near__waiter *take_sleeper(struct near__bucket *b, const struct near_sem *s)
{
	struct near__waiter *w = near__lot_first(b, s, NEAR__SPACE_SEM);
	bool designates = b->waking != s || near_sem_read(s);

	if (!w)
		return NULL;
	if ((designates || is_time_to_check()) && near__lot_is_due(b, w)) {
		w->token = HANDOFF;
		near__lot_note_handover(b, w);
	} else if (designates) {
		w->token = DESIGNATED;
		b->waking = s;
	} else {
		return NULL;
	}
	near__lot_take(b, w);
	return w;
}

/* Adds a unit. Release: pairs with the acquire in near_sem_try_wait. */
static int add(struct near_sem *s, uint32_t cleared)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	do
		if (seen >> 1 == NEAR_SEM_MAX)
			return -EOVERFLOW;
	while (!NEAR__CAS(&s->word, &seen, (seen & ~cleared) + UNIT, __ATOMIC_RELEASE));
	return 0;
}

/* The flag is cleared under the lock alone. */
static int add_or_hand_over(struct near_sem *s)
{
	struct near__bucket *b = near__lot_lock(s);
	struct near__waiter *w = take_sleeper(b, s);
	uint32_t cleared = near__lot_first(b, s, NEAR__SPACE_SEM) ? 0 : SLEEPERS;
	int r = 0;

	/* Relaxed: near__lot_wake has the release. */
	if (w && w->token == HANDOFF)
		__atomic_fetch_and(&s->word, ~cleared, __ATOMIC_RELAXED);
	else
		r = add(s, cleared);
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
			return near__lot_defer(s, settle) ? add(s, 0) : add_or_hand_over(s);
		if (seen >> 1 == NEAR_SEM_MAX)
			return -EOVERFLOW;
		/* Release: pairs with the acquire in near_sem_try_wait. */
	} while (!NEAR__CAS(&s->word, &seen, seen + UNIT, __ATOMIC_RELEASE));
	return 0;
}
