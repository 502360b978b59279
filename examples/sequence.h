/* SPDX-License-Identifier: MIT */
/* A sequence of one's own: the highest value seen, one copy per slot (near_seq(7) explains it).
 * No counter can do this: the store depends on what is there. */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include <nearcpu/percpu.h>

/* if (at[0] < n) at[0] = n; the store commits. Harmless to repeat: nothing else is written. */
static inline bool peak_try_raise(uint64_t *p, uint64_t n)
{
	uint64_t at, v, tmp;

	if (!NEAR_HAS_SEQ)
		return false;
	/* clang-format off */
	__asm__ volatile __inline__ goto(
		NEAR_SEQ_BEGIN
		NEAR_SLOT(at, p)
		NEAR_LOAD8(v, at, 0)
		NEAR_BRANCH_NOT_BELOW(v, n, near_high_enough)
		NEAR_COMMIT8(n, at, 0)
		: NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [v] "=&r"(v)
		: NEAR_SEQ_IN, NEAR_SEQ_OBJECT(p, p), [n] "r"(n)
		: NEAR_SEQ_CLOBBER
		: near_failed, near_high_enough);
	/* clang-format on */
	NEAR_SEQ_EDGE;
	return true;
near_high_enough:
	NEAR_SEQ_EDGE;
	return true;
near_failed:
	NEAR_SEQ_EDGE;
	return false;
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
