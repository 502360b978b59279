/* SPDX-License-Identifier: MIT */
/* The state of the locks, see locks_state.h and mutex.h. */
#include "locks/locks_state.h"

#include <nearcpu/mutex.h>

#include "base/unique.h"
#include "base/valgrind.h"

#define LOCKS_SIZE 256
_Static_assert(sizeof(struct near__locks) == LOCKS_SIZE, "near__locks");
NEAR__UNIQUE(near__locks, LOCKS_SIZE);

/* A new thread has no id yet. */
_Static_assert(NEAR__NO_OWNER == 16, "near__more in base/more.c");

NEAR__BEFORE_PROGRAM static void locks_ignore_races(void)
{
	near__valgrind_ignore(&near__locks, sizeof(near__locks));
}
