/* SPDX-License-Identifier: MIT */
/* expect: an offset is 0 to 255 */
/* times: 5 */
#include "sequence.h"

SEQUENCE(commit, NEAR_SLOT(at, p) NEAR_COMMIT_ADD8(n, at, 1024))
SEQUENCE(compare,
	 NEAR_SLOT(at, p) NEAR_BRANCH_MEM4_NE(at, 260, 1, near_failed) NEAR_COMMIT8(n, at, 0))
SEQUENCE(load, NEAR_SLOT(at, p) NEAR_LOAD8(v, at, 256) NEAR_COMMIT8(v, at, 0))
SEQUENCE(store, NEAR_SLOT(at, p) NEAR_STORE1(n, p, 4096) NEAR_COMMIT8(n, at, 0))
SEQUENCE(negative, NEAR_SLOT(at, p) NEAR_LOAD8(v, at, -8) NEAR_COMMIT8(v, at, 0))
