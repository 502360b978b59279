/* SPDX-License-Identifier: MIT */
/* expect: a constant is 1 to 255 here */
/* times: 3 */
#include "sequence.h"

#define COMPARE(name, constant)                                                                    \
	SEQUENCE(name, NEAR_SLOT(at, p) NEAR_BRANCH_MEM4_NE(at, 0, constant, near_failed)          \
			       NEAR_COMMIT8(n, at, 8))

COMPARE(above, 256)
COMPARE(none, 0)
COMPARE(only_x86_64, 100000)
