/* SPDX-License-Identifier: MIT */
/* pace: how soon a thread that has let go of a mutex lets go of it again, which its waiters go by.
 *
 * Who has to wait can look at the word often, and get it soon, or stay away from its cache line for
 * a while, so that who has it gets on. If threads come back within 100 ns, the second makes up to
 * three times as many sections; if it takes them 200, the first makes up to twice as many. So
 * a thread that had to wait now and then takes the time between its next two unlocks, if it waits
 * for nothing meanwhile, and keeps it with the mutex's bucket. The first unlock is too early: what
 * the mutex guards had to come from another CPU.
 *
 * The time is often longer than it would be: another thread's look has taken the line. So what is
 * kept is the shortest one, which one longer time lifts by 1 ns. Mutexes in one bucket share that,
 * and a wrong guess costs no more than time. */
#ifndef NEARCPU_PACE_H
#define NEARCPU_PACE_H

#include <nearcpu/mutex.h>

/* Relaxed, and nothing hangs on it. */
bool near__pace_is_quick(const struct near_mutex *m);

/* By a thread that has got the mutex after it had to wait. Returns how many of its next unlocks
 * must be told. */
unsigned near__pace_waited(const struct near_mutex *m);

/* By a thread that lets go of the mutex, of which no more than the address is used. */
void near__pace_unlocked(const struct near_mutex *m);

#endif
