/* SPDX-License-Identifier: MIT */
/* torture: aborts a restartable sequence at each of its instructions, on this kernel, to prove what
 * it does then. For tests. In a library of its own, libnearcpu-torture, which depends on libc
 * alone.
 *
 * Give it an operation, a set-up, competing operations and a check. It finds the sequences that
 * the operation goes through, by whatever means they were written. At each instruction of each it
 * makes the kernel abort the sequence, lets competing operations run there, lets the operation go
 * on, and asks the check. Behind the commit there must be no abort, and the store must be visible.
 * Competing operations also run at each instruction between the entry of the function that holds
 * the sequence and the sequence: what was read there must not be what is committed.
 *
 * Cost:      about 20 us per run that is checked. An operation with two rivals that is stopped at
 *            12 places of a sequence and at 20 before it takes 184 runs, 4 ms.
 * Memory:    3 KiB per sequence of the process, while it runs.
 * Safety:    one call at a time in a process; other threads keep away from the sequences meanwhile,
 *            and from SIGTRAP. Not under a debugger. The text of the program and its shared objects
 *            is writable meanwhile.
 * Fallback:  none: -ENOSYS where no sequence can be aborted (no rseq, valgrind, qemu-user).
 *
 *     static int64_t *p, added;
 *
 *     static void setup(void *arg)   { ...all copies of p = 0; added = 0... }
 *     static void run(void *arg)     { add(p, 3); added += 3; }
 *     static void rival(void *arg)   { add(p, 5); added += 5; }
 *     static const char *check(void *arg) { return sum(p) == added ? NULL : "miscounted"; }
 *
 *     struct near_torture_rival rivals[] = {{"add", rival, NULL, 0}};
 *     struct near_torture t = {.setup = setup, .run = run, .check = check,
 *                              .rivals = rivals, .n_rivals = 1};
 *     int failures = near_torture(&t, sizeof(t), NULL, 0);
 *
 * near_torture(3) has a whole program, and tells how to read what it reports.
 *
 * Source: the delivery of a signal inside a sequence is an abort (rseq(2)); a breakpoint makes it
 * come at an instruction of choice.
 */
#ifndef NEARCPU_TORTURE_H
#define NEARCPU_TORTURE_H

#include <nearcpu/rseq.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A competing operation. It may be the same one. */
struct near_torture_rival {
	const char *name;
	void (*run)(void *arg);
	void *arg;
	unsigned flags; /* NEAR_TORTURE_..., or 0 */
};

/* It must not run in a signal handler above the operation, only on another thread. */
#define NEAR_TORTURE_NOT_IN_HANDLER 1u
/* It takes the slot of the thread that it runs on away from sequences (closes its state word). From
 * there on the operation must not change what `slot` names. It runs in the signal handler only. */
#define NEAR_TORTURE_CLOSES 2u
/* It must not run where the operation is stopped before a sequence, only where it is in one. */
#define NEAR_TORTURE_NOT_BEFORE 4u

/* All functions get `arg` (rivals their own), and all but rivals run on the calling thread. digest
 * and slot only look. */
struct near_torture {
	/* Brings everything to the state before the operation. Called before each run. */
	void (*setup)(void *arg);
	/* The operation. It does the same thing each time. */
	void (*run)(void *arg);
	const struct near_torture_rival *rivals;
	unsigned n_rivals;
	/* NULL: what is there agrees with what run and the rivals did; else what is wrong. It may
	 * spoil it. */
	const char *(*check)(void *arg);
	/* Optional: a hash of all that can be observed, results included. The operation and a rival
	 * must then leave what they leave one after the other, in one order or the other. */
	uint64_t (*digest)(void *arg);
	/* Optional: where the sequences of this thread write now, for instance
	 * near_percpu_at(p, near_slot()). It then also has to stay as it is once the thread was
	 * moved to another slot, and where all sequences are aborted. */
	const void *(*slot)(void *arg, size_t *size);
	/* Optional: is told of each failure; otherwise the first ten go to standard error. */
	void (*report)(void *arg, const char *failure);
	/* So many aborts the operation may try in vain before it gets on without; 0: 1000. */
	unsigned max_aborts;
	void *arg;
};

struct near_torture_result {
	unsigned sequences;     /* that run goes through, */
	unsigned uncommitted;   /* those that it always leaves before their commit: not tried */
	unsigned boundaries;    /* of instructions, where run was stopped */
	unsigned unreached;     /* boundaries that no run came to */
	unsigned before;        /* instructions before the sequences where run was stopped */
	unsigned long runs;     /* that were checked */
	unsigned long aborts;   /* in them, at the chosen instruction */
	unsigned long migrated; /* of these: runs that went on on another CPU */
	unsigned most_aborts;   /* that run took in a row until it got on without */
	unsigned failures;
	char text[512]; /* the first failure, or why there is a negative result; else "" */
};

/* Tries everything in *t, of which the caller knows `size` bytes; what it does not know is 0. Fills
 * the `out_size` bytes that it knows of *out, which may be NULL; what the library does not know
 * becomes 0. Later versions add fields at the ends of both, and rivals stay as they are.
 * Returns the number of failures, 0 if all is well; -ENOSYS: sequences are not aborted here;
 * -ENOENT: run goes through none to its commit; -EACCES: text cannot be made writable; -EBUSY:
 * another call is running; -EINVAL: setup, run or check is missing, or slot for a rival that
 * closes; -E2BIG: a field is set that the library does not know; -ENOMEM, -EAGAIN: no memory, no
 * thread to be had. */
NEAR_API int near_torture(const struct near_torture *t, size_t size,
			  struct near_torture_result *out, size_t out_size);

#ifdef __cplusplus
}
#endif

#endif
