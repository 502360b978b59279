/* SPDX-License-Identifier: MIT */
/* place: binds the calling thread to one CPU, and finds a second one. */
#ifndef NEARCPU_TORTURE_PLACE_H
#define NEARCPU_TORTURE_PLACE_H

#include <sched.h>
#include <signal.h>

struct place {
	cpu_set_t before[8]; /* 8,192 CPUs */
	sigset_t signals;    /* blocked before */
	int home, away;      /* away: -1 if there is one CPU only */
};

/* Binds to the current CPU, and unblocks SIGTRAP. Returns 0 or a negative errno. */
int near__place_enter(struct place *p);
void near__place_leave(const struct place *p);

/* Moves the thread to `cpu`. Returns 0 or a negative errno. */
int near__place_go(int cpu);

#endif
