/* SPDX-License-Identifier: MIT */
/* The operations of the library as a table, for tests that stop one in the middle, run another one,
 * and compare: the emulator (tests/emulator) and the trap in process.
 *
 *     ops_reset(); a.run(&x); stopped at some instruction; b.run(&y); a goes on
 *
 * The outcome must be that of one of the two orders of complete operations (ops_digest), where A is
 * one step (ops_is_one_step); always, nothing may be lost or be there twice (ops_conserved). */
#ifndef NEARCPU_TESTS_OPS_H
#define NEARCPU_TESTS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPS_RESULTS 40

/* One for each logical thread: what its operations returned, and what they are known to have
 * done. */
struct actor {
	void *results[OPS_RESULTS]; /* nodes, or numbers cast to pointers */
	unsigned n;
	unsigned id;     /* 0 or 1: whose nodes it pushes */
	unsigned pushed; /* of its own nodes */
	unsigned got;    /* nodes that it took off */
	int64_t counted, shared, refs, sections;
	int64_t recorded, summed; /* values, and their sum where a histogram has it */
	uint64_t peak;            /* the highest that it reported */
	int64_t written;          /* times that it held the lock for writing */
	unsigned called;          /* calls of near_rcu_call */
	unsigned events, chains;  /* of the tracer; a bit for each event that is a chain */
	unsigned restarts;        /* sessions that it ended, and began */
};

void ops_actor(struct actor *a, unsigned id);

/* Those of one kind are made together, and follow each other here: setup.c. */
enum ops_object {
	OPS_COUNTER,
	OPS_REFCOUNT,
	OPS_SHARED,
	OPS_EXAMPLE,
	OPS_RWLOCK,
	OPS_MUTEX,
	OPS_HISTOGRAM,
	OPS_FIFO,
	OPS_STACK,
	OPS_QUEUE,
	OPS_BLOCKS,
	OPS_ARRAY,
	OPS_RCU,
	OPS_CALLBACKS,
	OPS_TRACE,
	OPS_IDS,
	OPS_OBJECTS
};

#define OPS_SIGNAL_SAFE 1u /* may run in a signal handler over any operation */
#define OPS_FENCES 2u      /* closes gates: sends membarriers */
#define OPS_KILLS 4u
#define OPS_REVIVES 8u
#define OPS_COMPOSITE 16u /* several steps: only conservation can be checked */
#define OPS_TWIN 64u      /* equivalent to an earlier operation when combined with another one */
#define OPS_WAITS 128u /* for A, if both use the same object: A must continue before B has ended */
#define OPS_STOPPED_INSIDE 256u /* only where nothing stops it but inside of a sequence */
/* Long, or in nothing but its length different from another one: only with itself, or as the one
 * that runs as a whole while another one is stopped. */
#define OPS_LONG 512u
#define OPS_NO_SEQUENCE 1024u /* nothing to abort in it */
#define OPS_NOT_LIVE 32u      /* the thread is not live during it; nor is a signal handler on it */

struct op {
	const char *name;
	void (*run)(struct actor *me);
	enum ops_object object;
	unsigned flags;
};

extern const struct op ops[];
extern const unsigned ops_count;

enum ops_setup {
	OPS_OPEN,     /* the calling thread's slot is open; 3 nodes, 5 references, counts of 100 */
	OPS_FALLBACK, /* the same content, in fallback slots; the slots' gates not yet open */
	OPS_EMPTY,    /* as OPS_OPEN, but the stack is empty */
	OPS_KILLED,   /* as OPS_OPEN, but the reference count was killed */
	OPS_SETUPS
};

/* Makes fresh objects: what operations on this object need, or with OPS_OBJECTS all of them. The
 * functions below speak of those that were made. */
void ops_reset(enum ops_setup setup, enum ops_object object);

/* Opens the calling thread's slot of each object, where the setup has open slots; content stays. */
void ops_enter(void);

/* False: the two must not run concurrently, or not in this setup (two kills, a revive of what was
 * not killed). */
bool ops_pair_is_valid(enum ops_setup setup, const struct op *a, const struct op *b);

/* The same where B must end before A goes on. */
bool ops_pair_does_not_wait(enum ops_setup setup, const struct op *a, const struct op *b);

/* True if `a`, stopped inside a sequence, has not taken effect yet or has completely: then the
 * outcome has the digest of one of the two orders. */
bool ops_is_one_step(enum ops_setup setup, const struct op *a);

/* What can be observed, as text: totals, the lists of the stack by slot, each actor's results. */
void ops_describe(char *out, size_t size, const struct actor *a, const struct actor *b);
uint64_t ops_digest(const struct actor *a, const struct actor *b);

/* NULL, or what was lost, found twice, or counted wrong. */
const char *ops_conserved(const struct actor *a, const struct actor *b);

#endif
