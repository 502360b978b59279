/* SPDX-License-Identifier: MIT */
/* The thread-local state of the library, and what it is initialised with, see self.h. */
#include "base/self.h"

#include "base/unique.h"

_Static_assert(sizeof(struct near__area) == 32, "near__dead");
_Static_assert(sizeof(struct near__thread) == 3 * sizeof(void *) + 8, "near__self");

/* A new thread is not live: `area` is near__dead, `block` near__no_block, the rest is 0. */
#define SELF_SIZE 3 * __SIZEOF_POINTER__ + 8
NEAR__UNIQUE(near__dead, 32);
NEAR__UNIQUE_TLS(
	near__self, SELF_SIZE,
	NEAR__UNIQUE_POINTER NEAR__STATE_NAME("near__dead") "\n.zero 8\n" NEAR__UNIQUE_POINTER
		NEAR__STATE_NAME("near__no_block") "\n.zero " NEAR__TEXT(__SIZEOF_POINTER__) "\n");
