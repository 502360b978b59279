/* SPDX-License-Identifier: MIT */
/* Private: the sequence that refcount.h and rwlock.h count with. */
#ifndef NEARCPU_GATED_H
#define NEARCPU_GATED_H

#include <nearcpu/seq.h>

NEAR__BEGIN_DECLS

/* Of a count and, at 8, its gate (4 bytes; src/percpu/gate.h): at[0] += n; the store of the sum
 * commits, and nothing is stored before it. A gate that is closed, or was never opened, fails it.
 * A thread that closes a gate fences before it relies on the count. */
NEAR__INLINE bool near__add_behind_gate(void *p, int64_t n)
{
	uint64_t at;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, p)
		NEAR_BRANCH_MEM4_NE(at, 8, 1, near_failed)
		NEAR_COMMIT_ADD8(n, at, 0),
		NEAR_OUT(at), NEAR_IN(p, n));
}

NEAR__END_DECLS

#endif
