/* SPDX-License-Identifier: MIT */
/* expect: a constant is -255 to 255 here */
/* times: 4 */
#include "sequence.h"

#define ADD(name, constant)                                                                        \
	SEQUENCE(name, NEAR_SLOT(at, p) NEAR_LOAD8(v, at, 0) NEAR_ADD_CONST(v, constant)           \
			       NEAR_COMMIT8(v, at, 0))

ADD(above, 256)
ADD(below, -256)
ADD(only_x86_64, 100000)
ADD(only_aarch64, 4096)
