/* SPDX-License-Identifier: MIT */
/* The slow paths of a slot's caches. */
#include "malloc/cache/cache.h"

#include <nearcpu/counter.h>

#include "percpu/gate.h"

/* ---- sequences ---- */

/* From an entry to what its room lost. */
static size_t settled_offset(unsigned class)
{
	return offsetof(struct near__front, settled) + class * sizeof(int64_t) -
	       class * sizeof(struct near__entry);
}

/* if (entry.list == empty) settled += entry.room - room, entry.room = room, entry.list = list
 * commits. */
static enum near__tried fill(unsigned class, uint64_t list, uint64_t room)
{
	uint64_t at, to, w, tmp;

	if (!NEAR__HAS_SEQ)
		return NEAR__ABORTED;
	/* clang-format off */
	__asm__ volatile goto(
		NEAR_SEQ_BEGIN
		NEAR_SLOT_UNCHECKED(at, entry)
		NEAR_LOAD8(w, at, 0)
		NEAR_BRANCH_NE(w, empty, near_other)
		NEAR_MOVE(to, at)
		NEAR_ADD(to, settled)
		NEAR_LOAD2(w, at, 8)
		NEAR_SUB(w, room)
		NEAR_ADD_MEM8(w, to, 0)
		NEAR_STORE2(room, at, 8)
		NEAR_COMMIT8(list, at, 0)
		: NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [to] "=&r"(to), [w] "=&r"(w)
		: NEAR_SEQ_IN, [entry] "r"(near__entry_of(class)), [list] "r"(list),
		  [room] "r"(room), [empty] "r"(NEAR__EMPTY_LIST),
		  [settled] "r"(settled_offset(class))
		: NEAR_SEQ_CLOBBER
		: near_failed, near_other);
	/* clang-format on */
	NEAR__RETURN_TRIED;
}

/* old = entry.list; settled += entry.room - room, entry.room = room, that of an empty list,
 * entry.list = empty commits, if there is anything. */
static enum near__tried take_list(unsigned class, uint64_t *old)
{
	uint64_t at, to, w, had, tmp;

	if (!NEAR__HAS_SEQ)
		return NEAR__ABORTED;
	/* clang-format off */
	__asm__ volatile goto(
		NEAR_SEQ_BEGIN
		NEAR_SLOT_UNCHECKED(at, entry)
		NEAR_LOAD8(w, at, 0)
		NEAR_BRANCH_BELOW(w, empty, near_failed)
		NEAR_MOVE(to, at)
		NEAR_ADD(to, settled)
		NEAR_LOAD2(had, at, 8)
		NEAR_SUB(had, room)
		NEAR_ADD_MEM8(had, to, 0)
		NEAR_STORE2(room, at, 8)
		NEAR_BRANCH_EQ(w, empty, near_other)
		NEAR_COMMIT8(empty, at, 0)
		: NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [to] "=&r"(to), [w] "=&r"(w),
		  [had] "=&r"(had)
		: NEAR_SEQ_IN, [entry] "r"(near__entry_of(class)), [empty] "r"(NEAR__EMPTY_LIST),
		  [room] "r"((uint64_t)near__sizes[class].batch),
		  [settled] "r"(settled_offset(class))
		: NEAR_SEQ_CLOBBER
		: near_failed, near_other);
	/* clang-format on */
	NEAR_SEQ_EDGE;
	*old = w;
	NEAR__RETURN_TRIED;
}

/* ---- the own slot ---- */

struct near__tally near__strays[NEAR__SIZES + 1];

void near__tally(int64_t *own, int64_t *stray)
{
	for (int i = 0; i < NEAR_SEQ_TRIES; i++)
		if (NEAR__LIKELY(near__counter_try_add(own, 1)))
			return;
	__atomic_fetch_add(stray, 1, __ATOMIC_RELAXED); /* a sum: nothing is ordered by it */
}

struct near__front *near__front_now(void)
{
	uint32_t slot = near__index_now();

	struct near__front *f;

	if (slot >= near__process.slots)
		return NULL;
	f = near_percpu_at((struct near__front *)near__heap.front, slot);
	/* A slot that nobody used yet must not be written to. */
	return __atomic_load_n(&f->due, __ATOMIC_RELAXED) ? f : NULL;
}

/* No sequence changes a word that is 0, so that anybody may begin it. The stash comes first:
 * drain.c looks at the list. */
static void begin(struct near__front *own, unsigned class)
{
	uint32_t none = 0;
	uint64_t unused = NEAR__UNUSED_LIST, never = 0;

	__atomic_compare_exchange_n(&own->due, &never, 1, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);

	__atomic_compare_exchange_n(&own->stashed[class], &none, 1, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(&own->entries[class].list, &unused, NEAR__EMPTY_LIST, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Makes the own slot ready. False: it is closed, or this thread has none. */
bool near__front_open(unsigned class)
{
	uint32_t slot = near__slot_open(near__heap.front);
	struct near__front *own;
	uint64_t list;

	if (slot == NEAR__NO_SLOT)
		return false;
	own = near_percpu_at((struct near__front *)near__heap.front, slot);
	list = __atomic_load_n(&own->entries[class].list, __ATOMIC_RELAXED); /* what to try */
	if (list == NEAR__UNUSED_LIST)
		begin(own, class);
	return list != NEAR__CLOSED_LIST;
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
		if (tried == NEAR__REFUSED || !near__front_open(class))
			break;
	}
	near__stash_put(class, list);
}

/* ---- slow paths ---- */

static bool may_try(void)
{
	return near__self.state <= NEAR__THREAD_LIVE;
}

/* A list with a block to take, which is the caller's: the own slot's, of which a pop was aborted or
 * found the first block damaged; one from the stash; or one from the central lists. */
static enum near__tried find_list(unsigned class, uint64_t *list)
{
	enum near__tried tried = NEAR__ABORTED;

	for (int i = 0; tried == NEAR__ABORTED && may_try() && i < NEAR_SEQ_TRIES; i++) {
		tried = take_list(class, list);
		if (tried == NEAR__ABORTED && !near__front_open(class))
			break;
	}
	if (tried == NEAR__REFUSED)
		*list = near__stash_get(class);
	return tried;
}

void *near__front_alloc(unsigned class)
{
	uint64_t list;
	void *p;

	if (find_list(class, &list) == NEAR__ABORTED)
		return near__local_alloc(class);
	if (near__list_is_empty(list))
		return NULL;
	p = near__list_take(&list);
	near__tally(&near__tally_of(class)->taken, &near__strays[class].taken);
	put_list(class, list);
	near__age();
	return p;
}

/* The list is full: it goes to the stash whole. */
static bool make_room(unsigned class, const void *p)
{
	uint64_t list;
	enum near__tried tried = take_list(class, &list);

	if (tried == NEAR__COMMITTED && list == near__offset_of(p))
		near__heap_die("double free", p);
	if (tried == NEAR__COMMITTED) {
		near__stash_put(class, list);
		near__age();
	}
	return tried != NEAR__ABORTED || near__front_open(class);
}

void near__front_free(unsigned class, void *p)
{
	uint64_t offset = near__offset_of(p);

	for (int i = 0; may_try() && i < NEAR_SEQ_TRIES; i++)
		if (near__push_by_slot(near__entry_of(class), p, offset))
			return;
		else if (!make_room(class, p))
			break;
		else
			near__refuse_freed(class, p); /* it may have been in what was given away */
	near__local_free(class, p);
}

void near__front_init(void)
{
	void *p;

	if (near__process.usable && near__percpu_alloc_whole(&p, sizeof(struct near__front)) == 0)
		near__heap.front = p;
}
