/* SPDX-License-Identifier: MIT */
/* mutant: which fault a program has that tests must find, see finds.sh. */
#ifndef NEARCPU_TESTS_MUTANT_H
#define NEARCPU_TESTS_MUTANT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool mutant_is(const char *fault)
{
	const char *selected = getenv("NEAR_MUTANT");

	return selected && strcmp(selected, fault) == 0;
}

#endif
