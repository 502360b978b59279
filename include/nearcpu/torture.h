/* SPDX-License-Identifier: MIT */
/* torture: aborts a restartable sequence at each of its instructions, on this kernel, to prove what
 * it does then. For tests. In a library of its own, libnearcpu-torture, which depends on libc
 * alone.
 *
 * Give it an operation, a set-up, competing operations and a check. It finds the sequences that the
 * operation executes, however they were written. At each instruction of each sequence it makes the
 * kernel abort the sequence, runs competing operations, continues the operation, and calls the
 * check. After the commit there must be no abort, and the store must be visible. Competing
 * operations also run at each instruction between the entry of the function that contains the
 * sequence and the sequence: a sequence must not commit a value that was read there. At last it
 * takes the registration away, before the operation and at each instruction: from then on no
 * sequence may commit.
 *
 * Cost:      about 20 us per run that is checked. An operation with two competing ones that is
 *            stopped at 12 instructions of a sequence and at 20 before it takes 184 runs, 4 ms.
 * Memory:    3 KiB per sequence of the process, while it runs.
 * Safety:    one call at a time in a process, not in signal handlers. During the call the text of
 *            the program and its shared objects is writable. Not under a debugger. Afterwards
 *            SIGTRAP's handler, the thread's CPUs and signal mask are what they were before.
 * Order:     what a competing operation did on another thread happens before the rest of the
 *            operation.
 * Fallback:  none: -ENOSYS where no sequence can be aborted (no rseq, valgrind, qemu-user).
 *
 * Concurrent with: no other call. Other threads must not run the sequences, load or unload shared
 * objects, or use SIGTRAP.
 *
 *     static int64_t *p, added;
 *
 *     static void setup(void *arg)   { ...all copies of p = 0; added = 0... }
 *     static void run(void *arg)     { add(p, 3); added += 3; }
 *     static void other(void *arg)   { add(p, 5); added += 5; }
 *     static const char *check(void *arg) { return sum(p) == added ? NULL : "miscounted"; }
 *
 *     struct near_torture_rival rivals[] = {{"add", other, NULL, 0}};
 *     struct near_torture t = {.setup = setup, .run = run, .check = check,
 *                              .rivals = rivals, .n_rivals = 1};
 *     int failures = near_torture(&t, sizeof(t), NULL, 0);
 *
 * near_torture(3) has a whole program, and explains the reports.
 *
 * Source: the delivery of a signal inside a sequence is an abort (rseq(2)); a breakpoint raises it
 * at a chosen instruction.
 */
#ifndef NEARCPU_TORTURE_H
#define NEARCPU_TORTURE_H

#include <nearcpu/rseq.h>

NEAR__BEGIN_DECLS

/* A competing operation. It may be the operation itself. */
struct near_torture_rival {
	const char *name;
	void (*run)(void *arg);
	void *arg;
	unsigned flags; /* NEAR_TORTURE_..., or 0 */
};

/* It must not run in a signal handler above the operation, only on another thread. */
#define NEAR_TORTURE_NOT_IN_HANDLER 1u
/* It closes the state word of the slot that its thread is on. From then on the operation must not
 * change what `slot` returns. It runs in the signal handler only. */
#define NEAR_TORTURE_CLOSES 2u
/* It must not run where the operation is stopped before a sequence, only where it is in one. */
#define NEAR_TORTURE_NOT_BEFORE 4u

/* All functions get `arg` (competing operations their own), and all except competing operations run
 * on the calling thread; in the last runs, run is called on threads that end after it. digest and
 * slot must not change anything. */
struct near_torture {
	/* Brings everything to the state before the operation. Called before each run. */
	void (*setup)(void *arg);
	/* The operation. It does the same thing each time. */
	void (*run)(void *arg);
	const struct near_torture_rival *rivals;
	unsigned n_rivals;
	/* Returns NULL if the state agrees with what run and the competing operations did; else a
	 * description of the fault. It may destroy the state. */
	const char *(*check)(void *arg);
	/* Optional: a hash of all that can be observed, results included. The operation and a
	 * competing one must then have the same digest as if they had run one after the other, in
	 * one of the two orders. */
	uint64_t (*digest)(void *arg);
	/* Optional: where the sequences of this thread write now, for instance
	 * near_percpu_at(p, near_slot()). It then also has to stay as it is once the thread was
	 * moved to another slot, and where all sequences are aborted. */
	const void *(*slot)(void *arg, size_t *size);
	/* Optional: called for each failure; otherwise the first ten go to standard error. */
	void (*report)(void *arg, const char *failure);
	/* The number of aborts after which the operation must complete without its sequences; 0:
	 * 1000. */
	unsigned max_aborts;
	void *arg;
};

struct near_torture_result {
	unsigned sequences;     /* that run executes, */
	unsigned uncommitted;   /* of these: it always leaves them before their commit; not tried */
	unsigned boundaries;    /* of instructions, where run was stopped */
	unsigned unreached;     /* boundaries that no run reached */
	unsigned before;        /* instructions before the sequences where run was stopped */
	unsigned long runs;     /* that were checked */
	unsigned long aborts;   /* in them, at the chosen instruction */
	unsigned long migrated; /* of these: runs that continued on another CPU */
	unsigned most_aborts;   /* in a row, before run completed without the sequence */
	unsigned failures;
	char text[512];      /* the first failure, or why there is a negative result; else "" */
	unsigned long taken; /* runs in which the thread lost its registration */
};

/* Tries everything in *t, of which the caller knows `size` bytes; what it does not know is 0. Fills
 * the `out_size` bytes that it knows of *out, which may be NULL; what the library does not know
 * becomes 0. Later versions add fields at the ends of both, and do not change struct
 * near_torture_rival. Returns the number of failures, 0 if all is well; -ENOSYS: sequences are not
 * aborted here; -ENOENT: run commits none; -EACCES: text cannot be made writable; -EBUSY: another
 * call is running; -EINVAL: setup, run or check is missing, or slot for a competing operation that
 * closes, or its flags do not go together; -E2BIG: a field is set that the library does not know;
 * -ENOMEM, -EAGAIN: no memory, no thread available. */
NEAR_API int near_torture(const struct near_torture *t, size_t size,
			  struct near_torture_result *out, size_t out_size);

NEAR__END_DECLS

#endif
