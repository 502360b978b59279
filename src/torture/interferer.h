/* SPDX-License-Identifier: MIT */
/* interferer: a second thread, which runs a function while the caller waits. */
#ifndef NEARCPU_TORTURE_INTERFERER_H
#define NEARCPU_TORTURE_INTERFERER_H

/* The thread has the caller's CPUs. Returns 0 or a negative errno. */
int near__interferer_start(void);
void near__interferer_end(void);

/* Runs run(arg) on the thread and waits until it returns. May be called in a signal handler of the
 * thread that started it. Warns on standard error if run does not return within 30 s. */
void near__interferer_run(void (*run)(void *arg), void *arg, const char *name);

/* The thread occupies its CPU, and the concurrency id that the caller had there, until
 * near__interferer_come_back. A caller that moves to another CPU in that time gets another id, if
 * the kernel ties ids to CPUs. Both functions do nothing if the thread is not running, or not
 * occupied. */
void near__interferer_stay(void);
void near__interferer_come_back(void);

#endif
