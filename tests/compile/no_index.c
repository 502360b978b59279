/* SPDX-License-Identifier: MIT */
/* expect: a sequence loads its index */
#include "sequence.h"

SEQUENCE(bad, NEAR_LOAD8(v, p, 0) NEAR_ADD(v, n) NEAR_COMMIT8(v, p, 0))
