/* SPDX-License-Identifier: MIT */
/* trap: makes the kernel abort a sequence of this process at an instruction of choice.
 *
 * A breakpoint is planted in the text. When a thread runs into it inside a sequence, the delivery
 * of SIGTRAP *is* the abort: the handler finds the instruction pointer at the abort handler
 * already. It takes the breakpoints out, runs whatever is to meet the sequence there (`meet`, on
 * this CPU, as the kernel would run another thread), and returns into the abort. A breakpoint right
 * behind the commit must not abort: the store is visible.
 *
 * The sequences are found in the process itself (find.h), so that a new one cannot be forgotten.
 *
 * What it cannot do: run something beside a sequence *without* aborting it. Whatever stops a thread
 * aborts its sequence. An emulator can (tests/emu).
 *
 * One thread at a time may run into breakpoints; others must stay away from the sequences
 * meanwhile. Bind the thread to one CPU: text is changed under it.
 *
 *     near__trap_open();
 *     near__trap_learn(TRAP_LET_OTHERS, run, arg);
 *     for (unsigned s = 0; s < near__trap_count(); s++)
 *             for (unsigned k = 0; k < near__trap_seq(s)->points; k++) {
 *                     struct trap_plan plan = {.seq = s, .point = k, .meet = other};
 *                     near__trap_run(&plan, run, arg);
 *                     // plan.met: run came there
 *                     // plan.aborted == (k < near__trap_seq(s)->points - 1)
 *             }
 *     near__trap_close();
 */
#ifndef NEARCPU_TORTURE_TRAP_H
#define NEARCPU_TORTURE_TRAP_H

#include <nearcpu/arch/arch.h>
#include <stdbool.h>
#include <stdint.h>

#include NEAR__ARCH_TRAP

#define TRAP_MAX_POINTS 256

struct trap_seq {
	uintptr_t start, end, abort; /* end: the first byte behind the commit */
	char *function;              /* where it stands, */
	uintptr_t offset;            /* and how far behind its begin */
	uintptr_t entry;             /* which is there; 0: no symbol tells */
	unsigned points;             /* instruction boundaries, `end` the last; 0: not learnt yet */
	uintptr_t point[TRAP_MAX_POINTS];
	unsigned trapped[TRAP_MAX_POINTS]; /* how often a breakpoint was met there */
	bool too_long;                     /* more points than fit; it is left alone */
	bool shares;                       /* its abort address with another one; likewise */
	bool reached;                      /* a run came to its start, */
	bool watched;                      /* and the kernel aborted it there */
};

/* What becomes of the other sequences that the operation runs into before. */
enum trap_others {
	TRAP_LET_OTHERS,   /* they run */
	TRAP_ABORT_ONCE,   /* each is aborted at its first instruction, once */
	TRAP_ABORT_OTHERS, /* each is aborted whenever it is tried: the operation must do without */
	TRAP_OTHERS
};

struct trap_plan {
	unsigned seq, point; /* where; seq = near__trap_count(): nowhere, `others` alone counts */
	enum trap_others others;
	bool again; /* abort there whenever it comes by, not only once */
	/* Not 0: stop at this instruction, of near__trap_before, instead. Nothing is aborted there;
	 * `again`: from there on the sequence is, whenever it is tried. `others` must be LET. */
	uintptr_t before;
	unsigned limit;          /* aborts after which it is let go; 0: none */
	void (*meet)(void *arg); /* runs in the signal handler, the first time */
	void *arg;
	/* What happened. */
	bool met;             /* the breakpoint was reached */
	bool aborted;         /* the kernel aborted the sequence there */
	bool unprotected;     /* it did not, and the sequence went on to its last instruction */
	bool endless;         /* there were more aborts than `limit` */
	unsigned aborts;      /* of others */
	unsigned aborts_here; /* at the plan's point */
};

/* Finds the sequences and makes their text writable. Returns the number of sequences, or a negative
 * errno: -ENOSYS where the CPU has none, -EACCES where text cannot be written, -ENOMEM. Where it is
 * open already, it counts; each open needs a close. Close brings back the text and SIGTRAP's
 * handler. */
int near__trap_open(void);
void near__trap_close(void);
unsigned near__trap_count(void);
struct trap_seq *near__trap_seq(unsigned i);

/* Runs run(arg) with a watch on the sequences that it goes through, to learn where their
 * instructions begin. They are not protected meanwhile: nobody else may use the same slots. A
 * sequence must be seen to commit. `others`: what becomes of those that are known already.
 * Returns how much is known; that number stays when there is nothing new. */
unsigned near__trap_learn(enum trap_others others, void (*run)(void *arg), void *arg);

/* What near__trap_learn knows is what it saw in the first run that committed. After this it looks
 * again, and adds what is new: for sequences that go another way in another mode. */
void near__trap_learn_again(void);

/* Calls once(arg), which learns and returns how much is known, until there is nothing new. */
void near__trap_learn_all(unsigned (*once)(void *arg), void *arg);

/* Runs run(arg), and fills out[] with the last `room` of the instructions that it comes through
 * before that sequence, in the function that holds it. Where instructions tell their lengths it
 * runs nothing, and takes all between the entry of the function and the sequence: a run may not
 * come there. Returns their number, 0 if no symbol tells the entry. */
unsigned near__trap_before(unsigned seq, void (*run)(void *arg), void *arg, uintptr_t *out,
			   unsigned room);

/* Runs run(arg) with the breakpoints of the plan. */
void near__trap_run(struct trap_plan *plan, void (*run)(void *arg), void *arg);

#endif
