/* SPDX-License-Identifier: MIT */
/* first: a signal at each instruction of the first operation of a thread, while the library finds
 * out whether the thread is live; the handler's operation may be the one that makes it so. */
#ifndef NEARCPU_TESTS_FIRST_H
#define NEARCPU_TESTS_FIRST_H

#include "../operations/ops.h"

/* Tries `first` with each wanted operation on the same object in the handler. Returns the number of
 * failures; adds to *visits how often the handler ran. Requires that the sequences are learnt. */
unsigned first_visit(const struct op *first, bool (*wanted)(const struct op *in_handler),
		     unsigned long *visits);

#endif
