/* SPDX-License-Identifier: MIT */
/* attacks: all short sequences of malloc, free and one fault, for blocks of many sizes, each in a
 * process of its own; of the tag that programs which search for attacks on heaps enumerate (Yun,
 * Kapil, Kim: "Automatic Techniques to Systematically Discover New Heap Exploitation Primitives",
 * 2020). They know nothing of the allocator, except the mark of version 0.1.0. */
#ifndef NEARCPU_TESTS_ATTACKS_H
#define NEARCPU_TESTS_ATTACKS_H

#include <stdint.h>

/* The mark of links in version 0.1.0, the same in every process. */
#define OLD_MARK UINT64_C(0x9d4f1b0000000001)

enum attack_result {
	ATTACK_HARMLESS,  /* silent; but no memory was handed out that is in use */
	ATTACK_STOPPED,   /* by abort() */
	ATTACK_CRASHED,   /* by another signal */
	ATTACK_OVERLAP,   /* malloc returned memory of a block in use */
	ATTACK_ARBITRARY, /* or outside of the heap, where the attacker wanted */
	ATTACK_RESULTS
};

struct attack_counts {
	unsigned n[ATTACK_RESULTS];
	unsigned required, required_missed; /* those that must be stopped */
};

/* Prints a line for each that must be stopped and was not. */
void attacks_run_all(struct attack_counts *counts);

#endif
