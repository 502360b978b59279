/* SPDX-License-Identifier: MIT */
/* expect: an operation follows the commit */
/* times: 16 */
#include "sequence.h"

SEQUENCE(move, GOOD NEAR_MOVE(v, n))
SEQUENCE(add, GOOD NEAR_ADD(v, n))
SEQUENCE(sub, GOOD NEAR_SUB(v, n))
SEQUENCE(and, GOOD NEAR_AND(v, n))
SEQUENCE(or, GOOD NEAR_OR(v, n))
SEQUENCE(xor, GOOD NEAR_XOR(v, n))
SEQUENCE(mul, GOOD NEAR_MUL(v, n))
SEQUENCE(add_const, GOOD NEAR_ADD_CONST(v, 1))
SEQUENCE(shift_left, GOOD NEAR_SHIFT_LEFT(v, 1))
SEQUENCE(shift_right, GOOD NEAR_SHIFT_RIGHT(v, 1))
SEQUENCE(branch_eq, GOOD NEAR_BRANCH_EQ(v, n, near_failed))
SEQUENCE(branch_ne, GOOD NEAR_BRANCH_NE(v, n, near_failed))
SEQUENCE(branch_below, GOOD NEAR_BRANCH_BELOW(v, n, near_failed))
SEQUENCE(branch_not_below, GOOD NEAR_BRANCH_NOT_BELOW(v, n, near_failed))
SEQUENCE(branch_zero, GOOD NEAR_BRANCH_ZERO(v, near_failed))
SEQUENCE(branch_nonzero, GOOD NEAR_BRANCH_NONZERO(v, near_failed))
