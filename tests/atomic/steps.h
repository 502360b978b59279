/* SPDX-License-Identifier: MIT */
/* steps: operations that are interrupted at a chosen instruction by a signal handler that makes
 * another one, which may be interrupted in turn; by the CPU's single steps, or by a breakpoint
 * where an earlier run by single steps found an instruction, which is much faster. */
#ifndef NEARCPU_TESTS_STEPS_H
#define NEARCPU_TESTS_STEPS_H

#include "operations.h"

#define STEPS_DEPTH 3
#define STEPS_ARENA 1024u
#define STEPS_TRACE 2048u

/* The instructions of an operation; one that repeats itself counts once. */
struct steps_trace {
	unsigned n;
	struct {
		uintptr_t ip;
		unsigned nth; /* how many times it ran by then */
	} steps[STEPS_TRACE];
};

/* The operations of one thread: the first is interrupted before its instruction number at[0],
 * counted from 1, by the next, and so on. They are left as the library left them. */
struct steps {
	unsigned depth; /* how many operations there are */
	struct operation ops[STEPS_DEPTH];
	unsigned at[STEPS_DEPTH];
	bool met[STEPS_DEPTH];        /* the next operation ran there */
	void (*wait)(struct steps *); /* if not NULL: each handler calls it before its operation */
	void (*behind)(struct steps *); /* the first handler, after it */
	/* If not NULL: that of the first operation, which a breakpoint then interrupts. Only for
	 * one thread, since breakpoints stop all. */
	const struct steps_trace *trace;
	/* If not 0: the third operation does not interrupt the second, but the first one again,
	 * this number of instructions later; where signals are blocked, after that. Needs a
	 * trace. */
	unsigned again;
	unsigned level; /* of the operation that is interrupted */
	/* private */
	struct steps_trace *record;
	unsigned char broken[8]; /* what the breakpoint took the place of */
	unsigned left; /* instructions until the third operation, 0: it does not run any more */
	unsigned counts[STEPS_DEPTH];
	bool begun[STEPS_DEPTH], ended[STEPS_DEPTH];
};

/* Whether this CPU has single steps, and this process may use them. */
bool steps_possible(void);

/* What the parent sees of a child that hangs: memory that both share, and that begins with
 * the content of an arena. Ends the process as skipped where steps are not possible. */
void *steps_share(size_t size);

/* No thread holds one of the library's locks, or waits for one. */
bool steps_locks_are_free(void);

/* Before all others: takes SIGTRAP. */
void steps_open(void);

void steps_run(struct steps *steps, void *arena);

/* Runs the first operation without interruption. */
void steps_record(struct steps *steps, void *arena, struct steps_trace *out);

/* Whether the results of the n operations and the memory are those of the operations one after the
 * other, in some order, on the memory from before. `planned` has the operations before they ran. */
bool steps_in_any_order(const struct operation *const planned[],
			const struct operation *const done[], unsigned n, const void *before,
			const void *after);

#endif
