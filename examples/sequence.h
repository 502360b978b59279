/* SPDX-License-Identifier: MIT */
/* A sequence of one's own: the highest value seen, one copy per slot (near_seq(7) explains it).
 * No counter can do this: the store depends on what is there. */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include <nearcpu/percpu.h>

enum { PEAK_KEPT = 2 }; /* a label of the sequence: the highest value is not below n */

/* if (at[0] < n) at[0] = n; the store commits. It may be repeated, since it stores nothing else.
 * Returns false if it failed. */
static inline bool peak_try_raise(uint64_t *p, uint64_t n)
{
	uint64_t at, v;

	return NEAR_SEQ(
		NEAR_SLOT(at, p)
		NEAR_LOAD8(v, at, 0)
		NEAR_BRANCH_NOT_BELOW(v, n, PEAK_KEPT)
		NEAR_COMMIT8(n, at, 0),
		NEAR_OUT(at, v), NEAR_IN(NEAR_OBJECT(p), n), PEAK_KEPT);
}

/* Bounded tries, then the fallback, which changes a copy that no sequence writes. */
static inline void peak_raise(uint64_t *p, uint64_t n)
{
	uint64_t *copy, v;

	for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
		if (peak_try_raise(p, n))
			return;
		if (!near_slot_open(p))
			break;
	}
	copy = (uint64_t *)near_percpu_fallback(p);
	v = __atomic_load_n(copy, __ATOMIC_RELAXED);
	while (v < n &&
	       !__atomic_compare_exchange_n(copy, &v, n, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

#endif
