/* SPDX-License-Identifier: MIT */
/* expect: an offset is 0 to 255 */
#include "sequence.h"

SEQUENCE(bad, NEAR_SLOT(at, p) NEAR_LOAD8(v, at, 256) NEAR_COMMIT8(v, at, 0))
