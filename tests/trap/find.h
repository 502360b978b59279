/* SPDX-License-Identifier: MIT */
/* Finds the sequences of this program. */
#ifndef NEARCPU_TESTS_FIND_H
#define NEARCPU_TESTS_FIND_H

#include "trap.h"

/* Returns how many, in *out, or -ENOSYS: none, or the CPU is not known; -ENOMEM. */
int find_sequences(struct trap_seq **out);

/* Makes the program's text writable. Returns 0 or -EACCES. */
int open_text(uintptr_t *start, uintptr_t *end);

#endif
