/* SPDX-License-Identifier: MIT */
/* The state of the locks, see state.h and mutex.h. */
#include "state.h"

#include <nearcpu/mutex.h>

#include "ground/unique.h"
#include "ground/valgrind.h"

#define LOCKS_SIZE 256
_Static_assert(sizeof(struct near__locks) == LOCKS_SIZE, "near__locks");
NEAR__UNIQUE(near__locks, LOCKS_SIZE);

/* A thread has no id yet, and is not checked. */
_Static_assert(NEAR__NO_OWNER == 16, "near__owner");
NEAR__UNIQUE_TLS(near__owner, 8, ".8byte 16\n");
NEAR__UNIQUE_TLS_ZERO(near__owner_checked, 4);
NEAR__UNIQUE_TLS_ZERO(near__lockdep_self, __SIZEOF_POINTER__);

NEAR__BEFORE_PROGRAM static void ignore_races(void)
{
	near__valgrind_ignore(&near__locks, sizeof(near__locks));
}
