/* SPDX-License-Identifier: MIT */
/* expect: an offset is 0 to 255 */
#include "sequence.h"

SEQUENCE(bad, NEAR_SLOT(at, p) NEAR_BRANCH_MEM4_NE(at, 260, 1, near_failed) NEAR_COMMIT8(n, at, 0))
