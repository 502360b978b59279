/* SPDX-License-Identifier: MIT */
/* cross: lets src/torture stop each operation A of a table at each instruction of each sequence
 * that it goes through, run each operation B there, and compare with the two orders of complete
 * operations. */
#ifndef NEARCPU_TESTS_CROSS_H
#define NEARCPU_TESTS_CROSS_H

#include "../operations/ops.h"

/* A table of operations with what is needed to judge them; see ops.h for each. */
struct suite {
	const struct op *ops;
	unsigned count, setups;
	void (*reset)(enum ops_setup setup, enum ops_object object);
	void (*enter)(void);
	bool (*pair_is_valid)(enum ops_setup setup, const struct op *a, const struct op *b);
	bool (*is_one_step)(enum ops_setup setup, const struct op *a);
	uint64_t (*digest)(const struct actor *a, const struct actor *b);
	void (*describe)(char *out, size_t size, const struct actor *a, const struct actor *b);
	const char *(*conserved)(const struct actor *a, const struct actor *b);
};

/* The thread that runs B. */
enum interferer {
	INTERFERER_HANDLER, /* the signal handler, on the thread that A runs on */
	INTERFERER_THREAD,  /* another thread on the same CPU; the handler waits for it */
};

struct cross {
	const struct suite *suite;
	enum interferer interferer;
	bool all_pairs; /* also of different objects, in the first setup */
	bool quiet;     /* count failures, do not print them */
	/* What happened. */
	unsigned long runs;
	unsigned long failures;
};

/* Learns the sequences of the suite's operations. To be called once for each suite. */
void cross_learn(const struct suite *suite);

/* Tries everything in *c. */
void cross_run(struct cross *c);

#endif
