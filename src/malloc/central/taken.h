/* SPDX-License-Identifier: MIT */
/* taken: blocks that have left their spans and become a list. */
#ifndef NEARCPU_MALLOC_TAKEN_H
#define NEARCPU_MALLOC_TAKEN_H

#include <stdint.h>

#define NEAR__MOST_TAKEN 128 /* blocks in a batch, at most */

struct near__taken {
	unsigned n, fresh; /* fresh: how many, from the first on, were never used */
	char *blocks[NEAR__MOST_TAKEN];
};

uint64_t near__taken_list(unsigned class, const struct near__taken *t);

#endif
