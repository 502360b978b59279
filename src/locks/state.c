/* SPDX-License-Identifier: MIT */
/* The state of the locks, see state.h and mutex.h. */
#include "state.h"

#include <nearcpu/mutex.h>

#include "ground/unique.h"
#include "ground/valgrind.h"

#define LOCKS_SIZE 256
_Static_assert(sizeof(struct near__locks) == LOCKS_SIZE, "near__locks");
NEAR__UNIQUE(near__locks, LOCKS_SIZE);

/* A new thread has no id yet. */
_Static_assert(NEAR__NO_OWNER == 16, "near__more in ground/more.c");

NEAR__BEFORE_PROGRAM static void ignore_races(void)
{
	near__valgrind_ignore(&near__locks, sizeof(near__locks));
}
