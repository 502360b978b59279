/* SPDX-License-Identifier: MIT */
/* The sequences of the slow paths: an empty list is exchanged for a full one, and a full one for an
 * empty one. */
#include "cache/cache.h"

/* if (entry.list == empty) entry.list = list commits. */
enum near__tried near__bin_fill(const struct near__bin *b, uint64_t list)
{
	uint64_t at, w;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, entry)
		NEAR_LOAD8(w, at, 0)
		NEAR_BRANCH_NE(w, empty, NEAR__REFUSED)
		NEAR_COMMIT8(list, at, 0),
		NEAR_OUT(at, w),
		NEAR_IN((entry, b->entry), list, (empty, NEAR__EMPTY_LIST)),
		NEAR__REFUSED);
}

/* old = entry.list; entry.list = empty commits, if there is anything. */
enum near__tried near__bin_take(const struct near__bin *b, uint64_t *list)
{
	uint64_t at, w;
	int result =
		NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, entry)
		NEAR_LOAD8(w, at, 0)
		NEAR_BRANCH_BELOW(w, empty, near_failed)
		NEAR_BRANCH_EQ(w, empty, NEAR__REFUSED)
		NEAR_COMMIT8(empty, at, 0),
		NEAR_OUT(at, w),
		NEAR_IN((entry, b->entry), (empty, NEAR__EMPTY_LIST)),
		NEAR__REFUSED);

	if (result == NEAR__COMMITTED)
		*list = w;
	return result;
}

/* n = number; array[n - 1] = word; number = n + 1 commits. No thread reads array[n - 1] before the
 * commit. 0 and the number of a closed cache are beyond all limits once 1 is taken off. */
enum near__tried near__bin_push_list(const struct near__bin *b, uint64_t word, uint64_t limit)
{
	uint64_t at, n, to;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, number)
		NEAR_LOAD4(n, at, 0)
		NEAR_MOVE(to, n)
		NEAR_ADD_CONST(to, -1)
		NEAR_BRANCH_NOT_BELOW(to, limit, NEAR__REFUSED)
		NEAR_MOVE(to, n)
		NEAR_SHIFT_LEFT(to, 3)
		NEAR_ADD(to, array)
		NEAR_ADD(to, at)
		NEAR_STORE8(word, to, 0)
		NEAR_ADD_CONST(n, 1)
		NEAR_COMMIT4(n, at, 0),
		NEAR_OUT(at, n, to),
		NEAR_IN((number, b->number), word, limit, (array, b->array)),
		NEAR__REFUSED);
}

/* n = number; word = array[n - 2]; number = n - 1 commits. */
enum near__tried near__bin_pop_list(const struct near__bin *b, uint64_t *word, uint64_t most)
{
	uint64_t at, n, from;
	int result = NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, number)
		NEAR_LOAD4(n, at, 0)
		NEAR_ADD_CONST(n, -1)
		NEAR_MOVE(from, n)
		NEAR_ADD_CONST(from, -1)
		NEAR_BRANCH_NOT_BELOW(from, most, NEAR__REFUSED)
		NEAR_MOVE(from, n)
		NEAR_SHIFT_LEFT(from, 3)
		NEAR_ADD(from, array)
		NEAR_ADD(from, at)
		NEAR_LOAD8(from, from, 0)
		NEAR_COMMIT4(n, at, 0),
		NEAR_OUT(at, n, from),
		NEAR_IN((number, b->number), (array, b->array), most),
		NEAR__REFUSED);

	if (result == NEAR__COMMITTED)
		*word = from;
	return result;
}

/* The transfer cache comes first: close.c's callers load the list. */
void near__bin_begin(struct near__entry *own, uint32_t *number, uint8_t limit)
{
	uint32_t none = 0;
	uint64_t unused = NEAR__UNUSED_LIST;

	__atomic_compare_exchange_n(number, &none, 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	__atomic_store_n(&own->limit, limit, __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(&own->list, &unused, NEAR__EMPTY_LIST, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}
