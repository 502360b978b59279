/* SPDX-License-Identifier: MIT */
/* The slow paths of the per-CPU cache: an empty list is exchanged for a full one, and a full one
 * for an empty one. */
#include "malloc/cache/cache.h"

#include "malloc/central/central.h"

/* ---- sequences ---- */

/* The distance from an entry to its delta. */
static size_t delta_offset(unsigned class)
{
	return offsetof(struct near__cache, deltas) + class * sizeof(int64_t) -
	       class * sizeof(struct near__entry);
}

/* if (entry.list == empty) delta += entry.room - room, entry.room = room, entry.list = list
 * commits. */
static enum near__tried fill(unsigned class, uint64_t list, uint64_t room)
{
	uint64_t at, to, w;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, entry)
		NEAR_LOAD8(w, at, 0)
		NEAR_BRANCH_NE(w, empty, NEAR__REFUSED)
		NEAR_MOVE(to, at)
		NEAR_ADD(to, delta)
		NEAR_LOAD2(w, at, 8)
		NEAR_SUB(w, room)
		NEAR_ADD_MEM8(w, to, 0)
		NEAR_STORE2(room, at, 8)
		NEAR_COMMIT8(list, at, 0),
		NEAR_OUT(at, to, w),
		NEAR_IN((entry, near__entry_of(class)), list, room, (empty, NEAR__EMPTY_LIST),
			(delta, delta_offset(class))),
		NEAR__REFUSED);
}

/* old = entry.list; delta += entry.room - room, entry.room = room, that of an empty list,
 * entry.list = empty commits, if there is anything. */
static enum near__tried take_list(unsigned class, uint64_t *old)
{
	uint64_t at, to, w, had;
	int result = NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, entry)
		NEAR_LOAD8(w, at, 0)
		NEAR_BRANCH_BELOW(w, empty, near_failed)
		NEAR_MOVE(to, at)
		NEAR_ADD(to, delta)
		NEAR_LOAD2(had, at, 8)
		NEAR_SUB(had, room)
		NEAR_ADD_MEM8(had, to, 0)
		NEAR_STORE2(room, at, 8)
		NEAR_BRANCH_EQ(w, empty, NEAR__REFUSED)
		NEAR_COMMIT8(empty, at, 0),
		NEAR_OUT(at, to, w, had),
		NEAR_IN((entry, near__entry_of(class)), (empty, NEAR__EMPTY_LIST),
			(room, near__central_batch(class)), (delta, delta_offset(class))),
		NEAR__REFUSED);

	if (result == NEAR__COMMITTED)
		*old = w;
	return result;
}

static void put_list(unsigned class, uint64_t list)
{
	uint64_t room = 1; /* as if it were a whole batch */

	if (near__list_is_empty(list))
		return;
	for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
		enum near__tried tried = fill(class, list, room);

		if (tried == NEAR__COMMITTED)
			return;
		if (tried == NEAR__REFUSED || !near__cache_open(class))
			break;
	}
	near__transfer_put(class, list);
}

/* ---- slow paths ---- */

static bool may_try(void)
{
	return near__self.state <= NEAR__THREAD_LIVE;
}

/* *list becomes a list of blocks that the caller owns: that of this slot, of which a pop was
 * aborted or found the first block damaged; or one from the transfer cache or the central lists. */
static enum near__tried find_list(unsigned class, uint64_t *list)
{
	enum near__tried tried = NEAR__ABORTED;

	for (int i = 0; tried == NEAR__ABORTED && may_try() && i < NEAR_SEQ_TRIES; i++) {
		tried = take_list(class, list);
		if (tried == NEAR__ABORTED && !near__cache_open(class))
			break;
	}
	if (tried == NEAR__REFUSED)
		*list = near__transfer_get(class);
	return tried;
}

bool near__cache_alloc(unsigned class, void **p)
{
	uint64_t list;

	*p = NULL;
	if (find_list(class, &list) == NEAR__ABORTED)
		return false;
	if (near__list_is_empty(list))
		return true;
	*p = near__list_take(&list);
	near__tally(&near__tally_of(class)->taken, &near__overflow[class].taken);
	put_list(class, list);
	return true;
}

/* The whole list goes to the transfer cache. */
static bool make_room(unsigned class, const void *p)
{
	uint64_t list;
	enum near__tried tried = take_list(class, &list);

	if (tried == NEAR__COMMITTED && list == near__offset_of(p))
		near__heap_die("double free", p);
	if (tried == NEAR__COMMITTED)
		near__transfer_put(class, list);
	return tried != NEAR__ABORTED || near__cache_open(class);
}

bool near__cache_free(unsigned class, void *p)
{
	uint64_t offset = near__offset_of(p);

	for (int i = 0; may_try() && i < NEAR_SEQ_TRIES; i++)
		if (near__push_by_slot(near__entry_of(class), p, offset))
			return true;
		else if (!make_room(class, p))
			break;
		else
			near__refuse_freed(class, p); /* the list that left may have contained it */
	return false;
}
