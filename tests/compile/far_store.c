/* SPDX-License-Identifier: MIT */
/* expect: an offset is 0 to 255 */
#include "sequence.h"

SEQUENCE(bad, NEAR_SLOT(at, p) NEAR_STORE1(n, p, 4096) NEAR_COMMIT8(n, at, 0))
