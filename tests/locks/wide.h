/* SPDX-License-Identifier: MIT */
/* Included before all else in locks_mutants: the sequence of near_mutex_unlock takes some hundred
 * nanoseconds between its load and its store, as it does when the CPU is slow there. A change that
 * another thread makes in between is lost, unless that thread calls a fence. As the sequence is,
 * these are a few instructions, which hardly ever meet a waiter. */
#include <nearcpu/seq.h>

#ifdef NEAR__BRANCH_IF
#undef NEAR_BRANCH_NE
#define NEAR_BRANCH_NE(a, b, label)                                                                \
	NEAR__BRANCH_IF("ne", a, b, label) ".rept 1000\n\tnop\n\t.endr\n\t"
#endif
