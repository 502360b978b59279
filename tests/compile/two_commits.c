/* SPDX-License-Identifier: MIT */
/* expect: a sequence loads its index */
#include "sequence.h"

SEQUENCE(bad, GOOD NEAR_COMMIT8(v, at, 8))
