/* SPDX-License-Identifier: MIT */
/* trap: makes the kernel abort a sequence of this program at an instruction of choice.
 *
 * A breakpoint is planted in the text. When a thread runs into it inside a sequence, the delivery
 * of SIGTRAP *is* the abort: the handler finds the instruction pointer at the abort handler
 * already. It takes the breakpoints out, runs whatever the test wants to meet the sequence there
 * (`meet`, on this CPU, as the kernel would run another thread), and returns into the abort. A
 * breakpoint right behind the commit must not abort: the store is visible.
 *
 * The sequences are found in the program itself, by the section of their descriptors, so that a new
 * one cannot be forgotten.
 *
 * What it cannot do: run something beside a sequence *without* aborting it. Whatever stops a thread
 * aborts its sequence. An emulator can (tests/emu).
 *
 * One thread at a time may run into breakpoints; others must stay away from the sequences
 * meanwhile. Bind the thread to one CPU: text is changed under it.
 *
 *     trap_open();
 *     trap_learn(TRAP_LET_OTHERS, run, arg);
 *     for (unsigned s = 0; s < trap_count(); s++)
 *             for (unsigned k = 0; k < trap_seq(s)->points; k++) {
 *                     struct trap_plan plan = {.seq = s, .point = k, .meet = other};
 *                     trap_run(&plan, run, arg);
 *                     // plan.met: run came there; plan.aborted == (k < trap_seq(s)->points - 1)
 *             }
 */
#ifndef NEARCPU_TESTS_TRAP_H
#define NEARCPU_TESTS_TRAP_H

#include <stdbool.h>
#include <stdint.h>

#define TRAP_MAX_POINTS 96

struct trap_seq {
	uintptr_t start, end, abort; /* end: the first byte behind the commit */
	const char *function;        /* where it stands */
	unsigned points;             /* instruction boundaries, `end` the last; 0: not learnt yet */
	uintptr_t point[TRAP_MAX_POINTS];
	unsigned trapped[TRAP_MAX_POINTS]; /* how often a breakpoint was met there */
};

/* What becomes of the other sequences that the operation runs into before. */
enum trap_others {
	TRAP_LET_OTHERS,   /* they run */
	TRAP_ABORT_ONCE,   /* each is aborted at its first instruction, once */
	TRAP_ABORT_OTHERS, /* each is aborted whenever it is tried: the operation must do without */
	TRAP_OTHERS
};

struct trap_plan {
	unsigned seq, point; /* where; seq = trap_count(): nowhere, `others` alone counts */
	enum trap_others others;
	void (*meet)(void *arg); /* runs in the signal handler */
	void *arg;
	/* What happened. */
	bool met;        /* the breakpoint was reached */
	bool aborted;    /* the kernel aborted the sequence there */
	unsigned aborts; /* of others */
};

/* Finds the sequences and makes the text writable. Returns the number of sequences, or a negative
 * errno: -ENOSYS where there are none or the CPU is not known, -EACCES where text cannot be
 * written. */
int trap_open(void);
unsigned trap_count(void);
struct trap_seq *trap_seq(unsigned i);

/* Runs run(arg) with a watch on the sequences that it goes through, to learn where their
 * instructions begin. They are not protected meanwhile: nobody else may use the same slots. A
 * sequence must be seen to commit. `others`: what becomes of those that are known already.
 * Returns how many sequences are known. */
unsigned trap_learn(enum trap_others others, void (*run)(void *arg), void *arg);

/* What trap_learn knows is what it saw in the first run that committed. After this it looks again,
 * and adds what is new: for sequences that go another way in another mode. */
void trap_learn_again(void);

/* Runs run(arg) with the breakpoints of the plan. */
void trap_run(struct trap_plan *plan, void (*run)(void *arg), void *arg);

/* Runs run(arg) and writes down the addresses of the program's own instructions in the order in
 * which they come, each once; sequences are aborted where they begin. Returns how many, at most
 * `max`; 0 where the CPU cannot step. */
unsigned trap_trace(uintptr_t *ips, unsigned max, void (*run)(void *arg), void *arg);

struct trap_at {
	uintptr_t ip;
	void (*meet)(void *arg);
	void *arg;
	/* What happened. */
	bool met;
	unsigned unprotected; /* times that a commit was reached later without an abort */
};

/* Runs run(arg), and at->meet in a signal handler when it first comes to the instruction at->ip. */
void trap_run_at(struct trap_at *at, void (*run)(void *arg), void *arg);

#endif
