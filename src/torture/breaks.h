/* SPDX-License-Identifier: MIT */
/* breaks: the breakpoints, and what a SIGTRAP means at the moment. For those who give it a
 * meaning.
 *
 * What handlers run calls nothing of the C library, errno included: breakpoints may be there. */
#ifndef NEARCPU_TORTURE_BREAKS_H
#define NEARCPU_TORTURE_BREAKS_H

#include "trap.h"

struct breakpoint {
	uintptr_t at;
	bool planted;
	bool learnt;                          /* since near__trap_learn_again */
	bool spent;                           /* met in this run, not to be planted again */
	unsigned char text[NEAR__BREAK_SIZE]; /* what stood there */
};

struct trap {
	void (*volatile handle)(ucontext_t *c); /* NULL: no SIGTRAP is expected */
	struct trap_seq *seqs;
	struct breakpoint *breaks; /* one for each sequence; behind them, that of the plan */
	unsigned count;
};
extern struct trap near__trap;

void near__break_plant(unsigned i, uintptr_t at);
void near__break_unplant(unsigned i);
void near__break_unplant_all(void);

/* Plants one at the start of each sequence that is wanted. */
void near__break_plant_starts(bool (*wanted)(unsigned i));

/* Which breakpoint the thread has run into that was not aborted; sets it back to the instruction
 * that stands there. Stops the program if the SIGTRAP is of somebody else. */
unsigned near__break_hit(ucontext_t *c);

/* Which sequence the kernel has just aborted, or near__trap.count. */
unsigned near__break_aborted(const ucontext_t *c);

void near__break_die(const char *why);

#endif
