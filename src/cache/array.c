/* SPDX-License-Identifier: MIT */
/* The sequences of arrays in slow paths: elements move by sixteen. */
#include "cache/cache.h"

_Static_assert(NEAR__ARRAY_MOVED == 16, "four times NEAR_COPY4");

/* clang-format off */
#define COPY16(dst, src, t)                                                                        \
	NEAR_COPY4(dst, 0, src, 0, t)                                                              \
	NEAR_COPY4(dst, 32, src, 32, t)                                                            \
	NEAR_COPY4(dst, 64, src, 64, t)                                                            \
	NEAR_COPY4(dst, 96, src, 96, t)
/* clang-format on */

/* n = position - 128; out = at[n] to at[n + 120]; position = n commits. A restart writes `out`
 * again; the caller uses it only if this commits. */
enum near__tried near__array_take16(struct near__array *array, uint64_t *out)
{
	uint64_t at, n, from, t;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, array)
		NEAR_LOAD8(n, at, 0)
		NEAR_BRANCH_BELOW(n, sixteen, NEAR__REFUSED)
		NEAR_ADD_CONST(n, -128)
		NEAR_MOVE(from, at)
		NEAR_ADD(from, n)
		COPY16(out, from, t)
		NEAR_COMMIT8(n, at, 0),
		NEAR_OUT(at, n, from, t),
		NEAR_IN(array, out, (sixteen, NEAR__EMPTY_LIST + 128)), NEAR__REFUSED);
}

/* n = position; at[n] to at[n + 120] = in; position = n + 128 commits, if that is not above `end`.
 * No thread reads these elements before the commit, so that a restart may write them again. */
enum near__tried near__array_put16(struct near__array *array, const uint64_t *in)
{
	uint64_t at, n, to, t;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, array)
		NEAR_LOAD8(n, at, 0)
		NEAR_BRANCH_BELOW(n, empty, NEAR__REFUSED)
		NEAR_LOAD8(t, at, 8)
		NEAR_MOVE(to, n)
		NEAR_ADD_CONST(to, 128)
		NEAR_BRANCH_BELOW(t, to, NEAR__REFUSED)
		NEAR_MOVE(to, at)
		NEAR_ADD(to, n)
		COPY16(to, in, t)
		NEAR_ADD_CONST(n, 128)
		NEAR_COMMIT8(n, at, 0),
		NEAR_OUT(at, n, to, t),
		NEAR_IN(array, in, (empty, NEAR__EMPTY_LIST)), NEAR__REFUSED);
}
