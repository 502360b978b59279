/* SPDX-License-Identifier: MIT */
/* The state of the parking lot, see lot.h. Data alone. */
#include "ground/unique.h"
#include "lot.h"

#define LOT_SIZE 66560
_Static_assert(sizeof(struct near__lot) == LOT_SIZE, "near__lot");
#define MINE_SIZE 2 * __SIZEOF_POINTER__ + 8
_Static_assert(sizeof(struct near__lot_mine) == MINE_SIZE, "near__lot_mine");
NEAR__UNIQUE(near__lot, LOT_SIZE);
NEAR__UNIQUE_TLS_ZERO(near__lot_mine, MINE_SIZE);
