/* SPDX-License-Identifier: MIT */
/* expect: an offset is 0 to 255 */
#include "sequence.h"

SEQUENCE(bad, NEAR_SLOT(at, p) NEAR_COMMIT_ADD8(n, at, 1024))
