/* SPDX-License-Identifier: MIT */
/* rival: one other thread, which runs what it is told while the caller waits. */
#ifndef NEARCPU_TORTURE_RIVAL_H
#define NEARCPU_TORTURE_RIVAL_H

/* The thread has the caller's CPUs. Returns 0 or a negative errno. */
int near__rival_start(void);
void near__rival_end(void);

/* Also in a signal handler of the thread that started it. Says so on standard error if the rival
 * does not come back for long. */
void near__rival_run(void (*run)(void *arg), void *arg, const char *name);

/* The thread keeps its CPU busy, and with it the concurrency id that the caller had there, until it
 * is told to come back: a caller that moves away meanwhile gets another id, if the kernel ties them
 * to CPUs. They do nothing where no thread was started, or none stays. */
void near__rival_stay(void);
void near__rival_come_back(void);

#endif
