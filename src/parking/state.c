/* SPDX-License-Identifier: MIT */
/* The state of the parking lot, see lot.h. Data alone. */
#include "ground/unique.h"
#include "lot.h"

#define LOT_SIZE 66560
_Static_assert(sizeof(struct near__lot) == LOT_SIZE, "near__lot");
#define THREAD_SIZE 2 * __SIZEOF_POINTER__ + 8
_Static_assert(sizeof(struct near__lot_thread) == THREAD_SIZE, "near__lot_thread");
NEAR__UNIQUE(near__lot, LOT_SIZE);
NEAR__UNIQUE_TLS_ZERO(near__lot_thread, THREAD_SIZE);
