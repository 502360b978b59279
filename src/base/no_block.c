/* SPDX-License-Identifier: MIT */
/* The block of threads that have none: zeros that cannot be written to. See block.h. */
#include "base/block.h"

#include "base/unique.h"

#define SIZE 704
_Static_assert(sizeof(struct near__block) == SIZE, "near__no_block");
NEAR__UNIQUE_ZERO_CONST(near__no_block, SIZE);
