/* SPDX-License-Identifier: MIT */
/* mutants: sequences with one fault each, to show that the tests would find it. Each adds 1 to the
 * count of the thread's slot, unless the fault shows. */
#ifndef NEARCPU_TESTS_MUTANTS_H
#define NEARCPU_TESTS_MUTANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cross.h"

/* A copy of the object. */
struct mutant_copy {
	uint64_t count, total; /* equal, but in a mutant that stores both */
	uint32_t gate;         /* own state word: 1 is open */
};

struct mutant {
	const char *name;
	void (*add)(struct mutant_copy *p);
};

extern const struct mutant mutant_sound;
/* Found by stopping them and running them in between: */
extern const struct mutant mutant_two_stores, mutant_commit_not_last, mutant_commit_outside;
/* Found by migrating them: */
extern const struct mutant mutant_index_outside, mutant_address_outside;
/* Found by stopping them before the sequence; the second is right: */
extern const struct mutant mutant_value_outside, mutant_value_compared;
/* Found in the child of a vfork: */
extern const struct mutant mutant_no_live_check;
/* Found where the gate is closed: */
extern const struct mutant mutant_no_state_check;
/* Found by a competing operation that reads the total: */
extern const struct mutant mutant_early_store;
/* Found since the kernel does not abort it: */
extern const struct mutant mutant_unarmed;
/* Found where the thread's registration was taken away: */
extern const struct mutant mutant_unregistered;
/* Found by aborting them again and again: */
extern const struct mutant mutant_unbounded, mutant_fallback_in_slot;

/* mutant_object returns a new object with the gate of the thread's slot open, mutant_current the
 * most recent one, mutant_sums what its slots add up to, mutant_suite a suite that consists of the
 * mutant's operation. */
struct mutant_copy *mutant_object(void);
struct mutant_copy *mutant_current(void);
void mutant_sums(uint64_t *count, uint64_t *total);
const struct suite *mutant_suite(const struct mutant *m);

#endif
