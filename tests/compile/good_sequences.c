/* SPDX-License-Identifier: MIT */
/* Sequences as they should be. */
#include "sequence.h"

SEQUENCE(first, GOOD)
SEQUENCE(second, GOOD)
SEQUENCE(last_offset, NEAR_SLOT(at, p) NEAR_LOAD1(v, at, 255) NEAR_COMMIT8(v, at, 248))
SEQUENCE(by_cpu, NEAR_INDEX_CPU(at) NEAR_MOVE(v, p) NEAR_COMMIT4(at, p, 0))
SEQUENCE(released, NEAR_SLOT(at, p) NEAR_COMMIT8_RELEASE(n, at))
