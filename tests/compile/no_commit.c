/* SPDX-License-Identifier: MIT */
/* expect: rror */
#include "sequence.h"

SEQUENCE(bad, NEAR_SLOT(at, p) NEAR_LOAD8(v, at, 0))
