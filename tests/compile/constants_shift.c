/* SPDX-License-Identifier: MIT */
/* expect: a constant is 0 to 63 here */
/* times: 3 */
#include "sequence.h"

SEQUENCE(left, NEAR_SLOT(at, p) NEAR_MOVE(v, n) NEAR_SHIFT_LEFT(v, 64) NEAR_COMMIT8(v, at, 0))
SEQUENCE(right, NEAR_SLOT(at, p) NEAR_MOVE(v, n) NEAR_SHIFT_RIGHT(v, 64) NEAR_COMMIT8(v, at, 0))
SEQUENCE(far, NEAR_SLOT(at, p) NEAR_MOVE(v, n) NEAR_SHIFT_LEFT(v, 255) NEAR_COMMIT8(v, at, 0))
