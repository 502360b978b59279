/* SPDX-License-Identifier: MIT */
/* expect: an operation follows the commit */
/* times: 14 */
#include "sequence.h"

SEQUENCE(load1, GOOD NEAR_LOAD1(v, at, 0))
SEQUENCE(load2, GOOD NEAR_LOAD2(v, at, 0))
SEQUENCE(load4, GOOD NEAR_LOAD4(v, at, 0))
SEQUENCE(load8, GOOD NEAR_LOAD8(v, at, 0))
SEQUENCE(store1, GOOD NEAR_STORE1(v, at, 0))
SEQUENCE(store2, GOOD NEAR_STORE2(v, at, 0))
SEQUENCE(store4, GOOD NEAR_STORE4(v, at, 0))
SEQUENCE(store8, GOOD NEAR_STORE8(v, at, 0))
SEQUENCE(compare, GOOD NEAR_BRANCH_MEM4_NE(at, 0, 1, near_failed))
SEQUENCE(index_cpu, GOOD NEAR_INDEX_CPU(v))
SEQUENCE(index_cid, GOOD NEAR_INDEX_CID(v))
SEQUENCE(index_own, GOOD NEAR_INDEX(v))
SEQUENCE(released, NEAR_SLOT(at, p) NEAR_COMMIT8_RELEASE(n, at) NEAR_LOAD8(v, at, 0))
SEQUENCE(shared, NEAR_COMMIT4_SHARED_RELEASE(n, p) NEAR_LOAD8(v, p, 0))
