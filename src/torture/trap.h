/* SPDX-License-Identifier: MIT */
/* trap: makes the kernel abort a sequence of this process at a chosen instruction.
 *
 * A breakpoint is planted in the text. When a thread runs into it inside a sequence, the delivery
 * of SIGTRAP *is* the abort: the handler finds the instruction pointer at the abort handler
 * already. It removes the breakpoints, calls `on_stop` (on this CPU, as the kernel would run
 * another thread), and returns into the abort. A breakpoint directly after the commit must not
 * abort: the store is visible.
 *
 * The sequences are found in the memory of the process (find.h), so that no new one is missed.
 *
 * It cannot run code concurrently with a sequence *without* aborting it, since stopping a thread
 * aborts its sequence. An emulator can (tests/emulator).
 *
 * Only one thread at a time may execute breakpoints; other threads must not run the sequences in
 * that time. Bind the thread to one CPU, since its text changes.
 *
 *     near__trap_open();
 *     near__trap_learn(TRAP_LET_OTHERS, run, arg);
 *     for (unsigned s = 0; s < near__trap_count(); s++)
 *             for (unsigned k = 0; k < near__trap_seq(s)->points; k++) {
 *                     struct trap_plan plan = {.seq = s, .point = k, .on_stop = other};
 *                     near__trap_run(&plan, run, arg);
 *                     // plan.reached: run reached the point
 *                     // plan.aborted == (k < near__trap_seq(s)->points - 1)
 *             }
 *     near__trap_close();
 */
#ifndef NEARCPU_TORTURE_TRAP_H
#define NEARCPU_TORTURE_TRAP_H

#include <nearcpu/detail/arch/arch.h>
#include <stdbool.h>
#include <stdint.h>

#include NEAR__ARCH_TRAP

#define TRAP_MAX_POINTS 256

struct trap_seq {
	uintptr_t start, end, abort; /* end: the first byte after the commit */
	char *function;              /* the function that contains it, */
	uintptr_t offset;            /* the offset in that function, */
	uintptr_t entry;             /* and its entry; 0: not known */
	unsigned points;             /* instruction boundaries, `end` the last; 0: not learnt yet */
	uintptr_t point[TRAP_MAX_POINTS];
	unsigned trapped[TRAP_MAX_POINTS]; /* how often a breakpoint was hit there */
	bool too_long;                     /* more points than fit; not tried */
	bool shares;  /* has the abort address of another sequence; not tried */
	bool reached; /* a run reached its start, */
	bool watched; /* and the kernel aborted it there */
};

/* What happens to the other sequences that the operation runs before. */
enum trap_others {
	TRAP_LET_OTHERS,   /* they run */
	TRAP_ABORT_ONCE,   /* each is aborted at its first instruction, once */
	TRAP_ABORT_OTHERS, /* each attempt is aborted: the operation must complete without them */
	TRAP_OTHERS
};

struct trap_plan {
	unsigned seq, point; /* where; seq = near__trap_count(): nowhere, only `others` applies */
	enum trap_others others;
	bool again; /* abort each time it reaches the point, not only once */
	/* If not 0: stop at this instruction, one of near__trap_before, instead. It is outside of
	 * sequences and causes no abort. With `again`, each later attempt of the sequence is
	 * aborted. Requires others = TRAP_LET_OTHERS. */
	uintptr_t before;
	unsigned limit; /* aborts after which the breakpoints are removed; 0: no limit */
	void (*on_stop)(void *arg); /* runs in the signal handler, the first time */
	void *arg;
	/* on_stop ends the thread's registration; if `seq` is nowhere, before run starts. */
	bool unregisters;
	/* What happened. */
	bool reached;         /* the breakpoint was reached */
	bool aborted;         /* the kernel aborted the sequence there */
	bool unprotected;     /* it did not, and the sequence reached its last instruction; or one
				 did after the registration had ended */
	bool endless;         /* there were more aborts than `limit` */
	unsigned aborts;      /* of other sequences */
	unsigned aborts_here; /* at the plan's point */
};

/* Finds the sequences and makes their text writable. Returns the number of sequences, or a negative
 * errno: -ENOSYS where the CPU has none, -EACCES where text cannot be written, -ENOMEM. Calls nest;
 * each open needs a close. The last close restores the text's protection and SIGTRAP's handler. */
int near__trap_open(void);
void near__trap_close(void);
unsigned near__trap_count(void);
struct trap_seq *near__trap_seq(unsigned i);

/* Runs run(arg) and records where the instructions of its sequences begin. The sequences are not
 * protected in this run: no other thread may use the same slots. A sequence is learnt once it
 * commits. `others`: what happens to sequences that are known already. Returns a measure of what is
 * known, which does not change when nothing new was found. */
unsigned near__trap_learn(enum trap_others others, void (*run)(void *arg), void *arg);

/* Only sets `reached` of the sequences that the run comes to, as the above does. */
void near__trap_find_reached(enum trap_others others, void (*run)(void *arg), void *arg);

/* near__trap_learn records the first run that commits. After this call it records again, and adds
 * new boundaries: for sequences that take another path in another mode. */
void near__trap_learn_again(void);

/* What near__trap_learn sets as reached after this call was reached after it. */
void near__trap_forget_reached(void);

/* Calls once(arg), which learns and returns the measure of what is known, until nothing is new. */
void near__trap_learn_all(unsigned (*once)(void *arg), void *arg);

/* Runs run(arg), and fills out[] with the last `room` instructions that it executes before that
 * sequence, in the function that contains it. Where the length of an instruction can be decoded it
 * runs nothing, and takes all instructions from the entry of the function to the sequence: a run
 * may not reach some. Returns their number, 0 if the entry is not known. */
unsigned near__trap_before(unsigned seq, void (*run)(void *arg), void *arg, uintptr_t *out,
			   unsigned room);

/* Runs run(arg) with the breakpoints of the plan. */
void near__trap_run(struct trap_plan *plan, void (*run)(void *arg), void *arg);

#endif
