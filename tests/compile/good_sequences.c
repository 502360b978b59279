/* SPDX-License-Identifier: MIT */
/* Sequences as they should be. */
#include "sequence.h"

SEQUENCE(first, GOOD)
SEQUENCE(second, GOOD)
SEQUENCE(last_offset, NEAR_SLOT(at, p) NEAR_LOAD1(v, at, 255) NEAR_COMMIT8(v, at, 248))
SEQUENCE(by_cpu, NEAR_INDEX_CPU(at) NEAR_MOVE(v, p) NEAR_COMMIT4(at, p, 0))
SEQUENCE(by_cid, NEAR_INDEX_CID(at) NEAR_LOAD8X(v, p, at) NEAR_COMMIT8(v, p, 0))
SEQUENCE(released, NEAR_SLOT(at, p) NEAR_COMMIT8_RELEASE(n, at))
SEQUENCE(shared,
	 NEAR_LOAD4(v, p, 0) NEAR_BRANCH_NE(v, n, near_failed) NEAR_COMMIT4_SHARED_RELEASE(at, p))
SEQUENCE(most, NEAR_SLOT(at, p) NEAR_MOVE(v, n) NEAR_ADD_CONST(v, 255) NEAR_ADD_CONST(v, -255)
		       NEAR_SHIFT_LEFT(v, 0) NEAR_SHIFT_RIGHT(v, 63) NEAR_COMMIT8(v, at, 0))
SEQUENCE(compared, NEAR_SLOT(at, p) NEAR_BRANCH_MEM4_NE(at, 0, 1, near_failed)
			   NEAR_BRANCH_MEM4_NE(at, 252, 255, near_failed) NEAR_COMMIT8(n, at, 0))
