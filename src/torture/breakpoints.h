/* SPDX-License-Identifier: MIT */
/* breakpoints: the breakpoints, and the function that handles a SIGTRAP. A handler must not call
 * the C library, errno included: it may contain breakpoints. */
#ifndef NEARCPU_TORTURE_BREAKPOINTS_H
#define NEARCPU_TORTURE_BREAKPOINTS_H

#include "torture/trap.h"

struct breakpoint {
	uintptr_t at;
	bool planted;
	bool learnt;                          /* since near__trap_learn_again */
	bool spent;                           /* hit in this run; not planted again */
	unsigned char text[NEAR__BREAK_SIZE]; /* the bytes it replaced */
};

struct trap {
	void (*volatile handle)(ucontext_t *c); /* NULL: no SIGTRAP is expected */
	struct trap_seq *seqs;
	struct breakpoint *breakpoints; /* one for each sequence, then the plan's */
	unsigned count;
};
extern struct trap near__trap;

void near__break_plant(unsigned i, uintptr_t at);
void near__break_unplant(unsigned i);
void near__break_unplant_all(void);

/* Plants one at the start of each sequence that is wanted. */
void near__break_plant_starts(bool (*wanted)(unsigned i));

/* Plants one at the last instruction of each sequence whose instructions are known. */
void near__break_plant_commits(void);

/* Returns the breakpoint that the thread hit without an abort, and sets the instruction pointer to
 * its address. Stops the program if no breakpoint caused this SIGTRAP. */
unsigned near__break_hit(ucontext_t *c);

/* Returns the sequence that the kernel has just aborted, or near__trap.count. */
unsigned near__break_aborted(const ucontext_t *c);

void near__break_die(const char *why);

#endif
