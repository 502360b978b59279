/* SPDX-License-Identifier: MIT */
/* steps: acts that are interrupted at a chosen instruction by a signal handler that makes another
 * one, which may be interrupted in turn; by the CPU's single steps. */
#ifndef NEARCPU_TESTS_STEPS_H
#define NEARCPU_TESTS_STEPS_H

#include "acts.h"

#define STEPS_DEPTH 3
#define STEPS_ARENA 1024u

/* One thread's acts: the first is interrupted before its instruction number at[0], counted from 1,
 * by the next, and so on. They are left as the library left them. */
struct steps {
	unsigned depth; /* how many acts there are */
	struct act acts[STEPS_DEPTH];
	unsigned at[STEPS_DEPTH];
	bool met[STEPS_DEPTH]; /* it had that many instructions, and the next act came there */
	void (*wait)(
		struct steps *); /* called in the first handler before its act, if there is one */
	/* private */
	unsigned level, counts[STEPS_DEPTH];
	bool begun[STEPS_DEPTH], ended[STEPS_DEPTH];
};

/* Whether this CPU has single steps, and this process may use them. */
bool steps_possible(void);

/* Before all others: takes SIGTRAP. */
void steps_open(void);

void steps_run(struct steps *steps, void *arena);

/* Whether what the n acts gave back and left in memory is what they do one after the other, in any
 * order, to what was there before. The acts as they were before they ran are in `planned`. */
bool steps_in_any_order(const struct act *const planned[], const struct act *const done[],
			unsigned n, const void *before, const void *after);

#endif
