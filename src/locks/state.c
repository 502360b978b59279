/* SPDX-License-Identifier: MIT */
/* The thread-local state of the locks, see mutex.h and order.h. Data alone. */
#include "ground/unique.h"
#include "order.h"

/* A thread has no number yet, and is not checked. */
_Static_assert(NEAR__NO_OWNER == 16, "near__owner");
NEAR__UNIQUE_TLS(near__owner, 8, ".8byte 16\n");
NEAR__UNIQUE_TLS_ZERO(near__order_self, __SIZEOF_POINTER__);
