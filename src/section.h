/* SPDX-License-Identifier: MIT */
/* section: how long the sections of a mutex are, which its waiters go by.
 *
 * Who has to wait can look at the word often, and get it soon, or stay away from its cache line for
 * a while, so that those who have it get on. Of sections of 1 ns the second makes twice as many;
 * of 40 ns and more the first makes up to twice as many. So a thread that had to wait now and then
 * takes the time of its section, and keeps it with the mutex's bucket.
 *
 * A section often takes longer than it would take: another thread's look at the word, or at what is
 * guarded, has taken the line. So what is kept is the shortest one, which one longer section lifts
 * by 1 ns. Mutexes in one bucket share that, and a wrong guess costs no more than time. */
#ifndef NEARCPU_SECTION_H
#define NEARCPU_SECTION_H

#include <nearcpu/mutex.h>

/* Relaxed, and nothing hangs on it. */
bool near__section_is_short(const struct near_mutex *m);

/* By a thread that has got the mutex after it had to wait: whether it takes the time. */
bool near__section_begin(const struct near_mutex *m);

/* By a thread that lets go of the mutex, of which no more than the address is used. */
void near__section_end(const struct near_mutex *m);

#endif
