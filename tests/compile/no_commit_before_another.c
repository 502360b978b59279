/* SPDX-License-Identifier: MIT */
/* expect: a sequence before this one has no commit */
#include "sequence.h"

SEQUENCE(bad, NEAR_SLOT(at, p) NEAR_LOAD8(v, at, 0))
SEQUENCE(good, GOOD)
