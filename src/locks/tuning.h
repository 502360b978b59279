/* SPDX-License-Identifier: MIT */
/* tuning: what only saves time in near_mutex. mutex.c is correct without it, and knows the
 * calls at the end alone: before a wait, after it, after an unlock, and the budgets of unlocks.
 *
 * They estimate how soon a thread that has unlocked a mutex unlocks it again, on which the waiters'
 * spinning depends; request longer time slices for holders (slice.h); and set the unlock budget:
 * which of a thread's next unlocks notify the library, or better use a CAS (mutex.h).
 *
 * The hold time.
 *
 * A waiter can load the word often and get the mutex soon, or leave its cache line alone for a
 * while, so that the holder makes progress. If threads come back within 100 ns, the second makes up
 * to three times as many sections; if it takes them 200 ns, the first makes up to twice as many. So
 * a thread that had to wait now and then measures the time between its next two unlocks, unless it
 * waits in between, and stores it in the mutex's bucket. The first unlock is too early: what the
 * mutex guards had to come from another CPU.
 *
 * The measured time is often too long, since another thread's load has taken the line. So the
 * estimate is the shortest time, which each longer one raises by 1 ns. Mutexes in one bucket share
 * it; a wrong estimate costs nothing but time. */
#ifndef NEARCPU_LOCKS_TUNING_H
#define NEARCPU_LOCKS_TUNING_H

#include <nearcpu/mutex.h>

/* A hint, by a relaxed load. */
bool near__hold_time_is_short(const struct near_mutex *m);

/* Called by a thread that has taken the mutex after a wait. Returns how many of its next unlocks
 * must call near__hold_time_unlocked. */
unsigned near__hold_time_waited(const struct near_mutex *m);

/* Called after an unlock; only the address of the mutex is used. */
void near__hold_time_unlocked(const struct near_mutex *m);

/* How a waiter spins: tries, and the pauses before them, of which each but the first is longer than
 * the one before (base/spin.h). */
struct near__spinning {
	bool is_short; /* the hold time */
	unsigned tries, first_ns, least_ns;
};

#ifndef NEAR__NO_TUNING

/* Called before this thread waits for the mutex, and when it has slept for it. */
struct near__spinning near__tuning_before_wait(const struct near_mutex *m);

/* Called before a thread sleeps for the mutex, for which others do: whether it yields first. */
bool near__tuning_yields_again(const struct near_mutex *m);

/* Called when this thread has the mutex after a wait. */
void near__tuning_after_wait(const struct near_mutex *m);

/* Called after an unlock that the budget counts; the mutex may be gone. */
void near__tuning_after_unlock(const struct near_mutex *m);

/* ---- budgets of a thread, over all its mutexes ---- */

/* The number of unlocks with ATOMIC_UNLOCK that pay for a fence; 1: the flag is never set. */
uint32_t near__tuning_unlocks_per_fence(void);

/* Called at an unlock with ATOMIC_UNLOCK alone: whether the flag is cleared. */
bool near__tuning_has_paid_for_fence(void);

/* Called at an unlock while there is a designated waker, which may take long to run: whether this
 * unlock searches the queue for the other waiters, which grow old. */
bool near__tuning_is_time_to_search(void);

#else /* to measure what they save */

static inline struct near__spinning near__tuning_before_wait(const struct near_mutex *m)
{
	return (struct near__spinning){false, 7, 100, 100};
}

static inline bool near__tuning_yields_again(const struct near_mutex *m)
{
	return true;
}

static inline void near__tuning_after_wait(const struct near_mutex *m)
{
}

static inline void near__tuning_after_unlock(const struct near_mutex *m)
{
}

static inline uint32_t near__tuning_unlocks_per_fence(void)
{
	return 1;
}

static inline bool near__tuning_has_paid_for_fence(void)
{
	return true;
}

static inline bool near__tuning_is_time_to_search(void)
{
	return true;
}

#endif

#endif
