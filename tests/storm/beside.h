/* SPDX-License-Identifier: MIT */
/* What runs concurrently with the workers of a stress test: each is the body of a thread, and
 * returns when storm.stop is set. */
#ifndef NEARCPU_TESTS_BESIDE_H
#define NEARCPU_TESTS_BESIDE_H

#include "storm.h"

void *
storm_worker(void *self); /* a struct storm_thread; also gets a signal every 100 us if it is one
                                   * of the first */
void *storm_churner(void *unused); /* creates and joins threads */
void *storm_vforker(void *self);   /* children of vfork take the steps */
void *storm_forker(void *unused);
void *storm_mover(void *unused);  /* moves workers between CPUs */
void *storm_closer(void *unused); /* drains, steals, kills, revives, resets */
void *storm_reader(void *unused);

/* The handler of the timers' signal. */
void storm_catch_signals(void);

#endif
