/* SPDX-License-Identifier: MIT */
/* find: the sequences of this process, in the program and in all shared objects it has loaded. */
#ifndef NEARCPU_TORTURE_FIND_H
#define NEARCPU_TORTURE_FIND_H

#include "torture/trap.h"

struct found {
	struct trap_seq *seqs;
	unsigned count;
	struct text *texts; /* the executable segments of the objects that have sequences */
	unsigned text_count;
};

/* Returns 0, or -ENOMEM. Requires that no object is loaded or unloaded until near__find_end. */
int near__find(struct found *out);
void near__find_end(struct found *f);

/* Makes the text writable. Returns 0, or -EACCES or -ENOMEM without a change. near__text_close
 * restores the protection. */
int near__text_open(const struct found *f);
void near__text_close(const struct found *f);

#endif
