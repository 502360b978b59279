/* SPDX-License-Identifier: MIT */
/* The two accesses of a lock's word, of any width. A lock changes its word in a loop: it loads the
 * word, decides, and compares and swaps. The load is relaxed, and so is a failed swap: they only
 * choose what the next swap tries. */
#ifndef NEARCPU_BASE_CAS_H
#define NEARCPU_BASE_CAS_H

#define NEAR__LOAD_RELAXED(p) __atomic_load_n(p, __ATOMIC_RELAXED)

/* Replaces *seen by next. False: it failed, perhaps spuriously, and has updated *seen. */
#define NEAR__CAS(p, seen, next, order)                                                            \
	__atomic_compare_exchange_n(p, seen, next, true, order, __ATOMIC_RELAXED)

#endif
