/* SPDX-License-Identifier: MIT */
/* expect: a sequence loads its index */
#include "sequence.h"

SEQUENCE(bad, NEAR_SLOT(at, p) NEAR_COMMIT_ADD8(n, at, 0) NEAR_COMMIT8_RELEASE(n, at))
