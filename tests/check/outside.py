# SPDX-License-Identifier: MIT
"""Sequences of near_seq(7) behind C code that reads the slot, too: of each kind, what is found."""

SOURCE = """
#include <nearcpu/percpu.h>

bool add(uint64_t *p, uint64_t n);

bool add(uint64_t *p, uint64_t n)
{
	uint64_t *mine = (uint64_t *)near_percpu_at(p, near_slot());
	uint64_t old = __atomic_load_n(mine, __ATOMIC_RELAXED), next = old + n;
	uint64_t at, v;

	return NEAR_SEQ(NEAR_SLOT(at, p) OPERATIONS, NEAR_OUT(at, v),
			NEAR_IN(NEAR_OBJECT(p), next, mine, n));
}
"""

# The operations, and what is found.
KINDS = {
    "sound": ("NEAR_LOAD8(v, at, 0) NEAR_ADD(v, n) NEAR_COMMIT8(v, at, 0)", set()),
    "compared": ("NEAR_LOAD8(v, at, 0) NEAR_ADD(v, n) NEAR_BRANCH_NE(v, next, near_failed) "
                 "NEAR_COMMIT8(next, at, 0)", set()),
    "value": ("NEAR_MOVE(v, next) NEAR_COMMIT8(v, at, 0)", {"value-outside"}),
    "address": ("NEAR_LOAD8(v, mine, 0) NEAR_ADD(v, n) NEAR_COMMIT8(v, mine, 0)",
                {"index-outside"}),
}


def source(kind):
    return SOURCE.replace("OPERATIONS", KINDS[kind][0])
