/* SPDX-License-Identifier: MIT */
/* What runs concurrently with the workers of a stress test: each is the body of a thread, and
 * returns when stress.stop is set. */
#ifndef NEARCPU_TESTS_BESIDE_H
#define NEARCPU_TESTS_BESIDE_H

#include "stress.h"

void *
stress_worker(void *self); /* a struct stress_thread; also gets a signal every 100 us if it is one
                                   * of the first */
void *stress_churner(void *unused); /* creates and joins threads */
void *stress_vforker(void *self);   /* children of vfork take the steps */
void *stress_forker(void *unused);
void *stress_mover(void *unused);  /* moves workers between CPUs */
void *stress_closer(void *unused); /* drains, steals, kills, revives, resets */
void *stress_reader(void *unused);

/* The handler of the timers' signal. */
void stress_catch_signals(void);

#endif
