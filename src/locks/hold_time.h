/* SPDX-License-Identifier: MIT */
/* hold_time: estimates how soon a thread that has unlocked a mutex unlocks it again, on which the
 * waiters' spinning depends.
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
#ifndef NEARCPU_LOCKS_HOLD_TIME_H
#define NEARCPU_LOCKS_HOLD_TIME_H

#include <nearcpu/mutex.h>

/* A hint, by a relaxed load. */
bool near__hold_time_is_short(const struct near_mutex *m);

/* Called by a thread that has taken the mutex after a wait. Returns how many of its next unlocks
 * must call near__hold_time_unlocked. */
unsigned near__hold_time_waited(const struct near_mutex *m);

/* Called after an unlock; only the address of the mutex is used. */
void near__hold_time_unlocked(const struct near_mutex *m);

#endif
