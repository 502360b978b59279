/* SPDX-License-Identifier: MIT */
/* steps: acts that are interrupted at a chosen instruction by a signal handler that makes another
 * one, which may be interrupted in turn; by the CPU's single steps, or by a breakpoint where an
 * earlier run by single steps found an instruction, which is much faster. */
#ifndef NEARCPU_TESTS_STEPS_H
#define NEARCPU_TESTS_STEPS_H

#include "acts.h"

#define STEPS_DEPTH 3
#define STEPS_ARENA 1024u
#define STEPS_TRACE 2048u

/* The instructions of an act; one that repeats itself counts once. */
struct steps_trace {
	unsigned n;
	struct {
		uintptr_t ip;
		unsigned nth; /* how many times it ran by then */
	} steps[STEPS_TRACE];
};

/* One thread's acts: the first is interrupted before its instruction number at[0], counted from 1,
 * by the next, and so on. They are left as the library left them. */
struct steps {
	unsigned depth; /* how many acts there are */
	struct act acts[STEPS_DEPTH];
	unsigned at[STEPS_DEPTH];
	bool met[STEPS_DEPTH]; /* it had that many instructions, and the next act came there */
	void (*wait)(
		struct steps *); /* called in the first handler before its act, if there is one */
	void (*behind)(struct steps *); /* and behind it */
	/* If there is one: it is of the first act, which is interrupted by a breakpoint then. For
	 * one thread: breakpoints stop them all. */
	const struct steps_trace *trace;
	unsigned level; /* of the act that is interrupted */
	/* private */
	struct steps_trace *record;
	unsigned char broken[8]; /* what the breakpoint took the place of */
	unsigned counts[STEPS_DEPTH];
	bool begun[STEPS_DEPTH], ended[STEPS_DEPTH];
};

/* Whether this CPU has single steps, and this process may use them. */
bool steps_possible(void);

/* Before all others: takes SIGTRAP. */
void steps_open(void);

void steps_run(struct steps *steps, void *arena);

/* Runs the first act, uninterrupted. */
void steps_record(struct steps *steps, void *arena, struct steps_trace *out);

/* Whether what the n acts gave back and left in memory is what they do one after the other, in any
 * order, to what was there before. The acts as they were before they ran are in `planned`. */
bool steps_in_any_order(const struct act *const planned[], const struct act *const done[],
			unsigned n, const void *before, const void *after);

#endif
