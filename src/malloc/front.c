/* SPDX-License-Identifier: MIT */
/* The slow paths of a slot's caches. */
#include "front.h"

#include <nearcpu/counter.h>

#include "../gate.h"

/* ---- sequences ---- */

enum tried { ABORTED, REFUSED, COMMITTED };

/* From an entry to what its room lost. */
static size_t settled_offset(unsigned class)
{
	return offsetof(struct near__front, settled) + class * sizeof(int64_t) -
	       class * sizeof(struct near__entry);
}

/* if (entry.list == empty) settled += entry.room - room, entry.room = room, entry.list = list
 * commits. */
static enum tried fill(unsigned class, uint64_t list, uint64_t room)
{
	uint64_t at, w, tmp;

	if (!NEAR__HAS_SEQ)
		return ABORTED;
	/* clang-format off */
	__asm__ volatile goto(
		NEAR_SEQ_BEGIN
		NEAR_SLOT_UNCHECKED(at, entry)
		NEAR_LOAD8(w, at, 0)
		NEAR_BRANCH_NE(w, empty, near_other)
		NEAR_LOAD2(w, at, 8)
		NEAR_SUB(w, room)
		NEAR_ADD(at, settled)
		NEAR_ADD_MEM8(w, at, 0)
		NEAR_SUB(at, settled)
		NEAR_STORE2(room, at, 8)
		NEAR_COMMIT8(list, at, 0)
		: NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [w] "=&r"(w)
		: NEAR_SEQ_IN, [entry] "r"(near__entry_of(class)), [list] "r"(list),
		  [room] "r"(room), [empty] "r"(NEAR__EMPTY_LIST),
		  [settled] "r"(settled_offset(class))
		: NEAR_SEQ_CLOBBER
		: near_failed, near_other);
	/* clang-format on */
	NEAR_SEQ_EDGE;
	return COMMITTED;
near_failed:
	NEAR_SEQ_EDGE;
	return ABORTED;
near_other:
	NEAR_SEQ_EDGE;
	return REFUSED;
}

/* old = entry.list; settled += entry.room - room, entry.room = room, that of an empty list,
 * entry.list = empty commits, if there is anything. */
static enum tried take_list(unsigned class, uint64_t *old)
{
	uint64_t at, w, had, tmp;

	if (!NEAR__HAS_SEQ)
		return ABORTED;
	/* clang-format off */
	__asm__ volatile goto(
		NEAR_SEQ_BEGIN
		NEAR_SLOT_UNCHECKED(at, entry)
		NEAR_LOAD8(w, at, 0)
		NEAR_BRANCH_BELOW(w, empty, near_failed)
		NEAR_LOAD2(had, at, 8)
		NEAR_SUB(had, room)
		NEAR_ADD(at, settled)
		NEAR_ADD_MEM8(had, at, 0)
		NEAR_SUB(at, settled)
		NEAR_STORE2(room, at, 8)
		NEAR_BRANCH_EQ(w, empty, near_other)
		NEAR_COMMIT8(empty, at, 0)
		: NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [w] "=&r"(w), [had] "=&r"(had)
		: NEAR_SEQ_IN, [entry] "r"(near__entry_of(class)), [empty] "r"(NEAR__EMPTY_LIST),
		  [room] "r"((uint64_t)near__sizes[class].batch),
		  [settled] "r"(settled_offset(class))
		: NEAR_SEQ_CLOBBER
		: near_failed, near_other);
	/* clang-format on */
	NEAR_SEQ_EDGE;
	*old = w;
	return COMMITTED;
near_failed:
	NEAR_SEQ_EDGE;
	return ABORTED;
near_other:
	NEAR_SEQ_EDGE;
	return REFUSED;
}

static uint32_t *stashed_of(unsigned class)
{
	return &((struct near__front *)near__heap.front)->stashed[class];
}

/* From the number of a class's stash to the place of its list -1. */
static size_t stash_offset(unsigned class)
{
	return offsetof(struct near__front, stash) + (class * NEAR__STASH - 1) * sizeof(uint64_t) -
	       (offsetof(struct near__front, stashed) + class * sizeof(uint32_t));
}

/* n = stashed; stash[n - 1] = list; stashed = n + 1 commits. Nobody looks at stash[n - 1] before. 0
 * and the number of a closed stash are beyond all limits once 1 is taken off. */
static enum tried stash_push(unsigned class, uint64_t list, uint64_t limit)
{
	uint64_t at, n, to, tmp;

	if (!NEAR__HAS_SEQ)
		return ABORTED;
	/* clang-format off */
	__asm__ volatile goto(
		NEAR_SEQ_BEGIN
		NEAR_SLOT_UNCHECKED(at, stashed)
		NEAR_LOAD4(n, at, 0)
		NEAR_MOVE(to, n)
		NEAR_ADD_CONST(to, -1)
		NEAR_BRANCH_NOT_BELOW(to, limit, near_other)
		NEAR_MOVE(to, n)
		NEAR_SHIFT_LEFT(to, 3)
		NEAR_ADD(to, stash)
		NEAR_ADD(to, at)
		NEAR_STORE8(list, to, 0)
		NEAR_ADD_CONST(n, 1)
		NEAR_COMMIT4(n, at, 0)
		: NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [n] "=&r"(n), [to] "=&r"(to)
		: NEAR_SEQ_IN, [stashed] "r"(stashed_of(class)), [list] "r"(list),
		  [limit] "r"(limit), [stash] "r"(stash_offset(class))
		: NEAR_SEQ_CLOBBER
		: near_failed, near_other);
	/* clang-format on */
	NEAR_SEQ_EDGE;
	return COMMITTED;
near_failed:
	NEAR_SEQ_EDGE;
	return ABORTED;
near_other:
	NEAR_SEQ_EDGE;
	return REFUSED;
}

/* n = stashed; list = stash[n - 2]; stashed = n - 1 commits. */
static enum tried stash_pop(unsigned class, uint64_t *list)
{
	uint64_t at, n, from, tmp;

	if (!NEAR__HAS_SEQ)
		return ABORTED;
	/* clang-format off */
	__asm__ volatile goto(
		NEAR_SEQ_BEGIN
		NEAR_SLOT_UNCHECKED(at, stashed)
		NEAR_LOAD4(n, at, 0)
		NEAR_ADD_CONST(n, -1)
		NEAR_MOVE(from, n)
		NEAR_ADD_CONST(from, -1)
		NEAR_BRANCH_NOT_BELOW(from, limit, near_other)
		NEAR_MOVE(from, n)
		NEAR_SHIFT_LEFT(from, 3)
		NEAR_ADD(from, stash)
		NEAR_ADD(from, at)
		NEAR_LOAD8(from, from, 0)
		NEAR_COMMIT4(n, at, 0)
		: NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [n] "=&r"(n), [from] "=&r"(from)
		: NEAR_SEQ_IN, [stashed] "r"(stashed_of(class)),
		  [stash] "r"(stash_offset(class)), [limit] "r"((uint64_t)NEAR__STASH)
		: NEAR_SEQ_CLOBBER
		: near_failed, near_other);
	/* clang-format on */
	NEAR_SEQ_EDGE;
	*list = from;
	return COMMITTED;
near_failed:
	NEAR_SEQ_EDGE;
	return ABORTED;
near_other:
	NEAR_SEQ_EDGE;
	return REFUSED;
}

/* ---- the own slot ---- */

struct near__tally near__strays[NEAR__SIZES + 1];

static struct near__tally *tally_of(unsigned class)
{
	return &((struct near__front *)near__heap.front)->tallies[class];
}

static void tally(int64_t *own, int64_t *stray)
{
	for (int i = 0; i < NEAR_SEQ_TRIES; i++)
		if (NEAR__LIKELY(near__counter_try_add(own, 1)))
			return;
	__atomic_fetch_add(stray, 1, __ATOMIC_RELAXED); /* a sum: nothing is ordered by it */
}

/* No sequence changes a word that is 0, so that anybody may begin it. The stash comes first:
 * drain.c looks at the list. */
static void begin(struct near__front *own, unsigned class)
{
	uint32_t none = 0;
	uint64_t unused = NEAR__UNUSED_LIST;

	__atomic_compare_exchange_n(&own->stashed[class], &none, 1, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(&own->entries[class].list, &unused, NEAR__EMPTY_LIST, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Makes the own slot ready. False: it is closed, or this thread has none. */
static bool open_own(unsigned class)
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

static size_t batch_bytes(unsigned class)
{
	return (size_t)near__sizes[class].size * near__sizes[class].batch;
}

static uint64_t stash_limit(unsigned class)
{
	size_t limit = ((size_t)1 << 20) / batch_bytes(class);

	return limit < NEAR__STASH ? limit : NEAR__STASH;
}

/* Puts a list that is ours where this slot, or any, finds it. */
static void put_away(unsigned class, uint64_t list)
{
	for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
		enum tried tried = stash_push(class, list, stash_limit(class));

		if (tried == COMMITTED) {
			tally(&tally_of(class)->spills, &near__strays[class].spills);
			return;
		}
		if (tried == REFUSED || !open_own(class))
			break;
	}
	near__central_give(class, list);
}

static void put_list(unsigned class, uint64_t list)
{
	uint64_t room = 1; /* as if it were a whole batch */

	if (near__list_is_empty(list))
		return;
	for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
		enum tried tried = fill(class, list, room);

		if (tried == COMMITTED)
			return;
		if (tried == REFUSED || !open_own(class))
			break;
	}
	put_away(class, list);
}

static uint64_t get_list(unsigned class)
{
	uint64_t list;

	for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
		enum tried tried = stash_pop(class, &list);

		if (tried == COMMITTED) {
			tally(&tally_of(class)->refills, &near__strays[class].refills);
			return list;
		}
		if (tried == REFUSED)
			break;
	}
	return near__central_take(class);
}

/* ---- slow paths ---- */

static bool may_try(void)
{
	return near__self.state <= NEAR__THREAD_LIVE;
}

/* A list with a block to take, which is the caller's: the own slot's, of which a pop was aborted or
 * found the first block damaged; one from the stash; or one from the central lists. */
static enum tried find_list(unsigned class, uint64_t *list)
{
	enum tried tried = ABORTED;

	for (int i = 0; tried == ABORTED && may_try() && i < NEAR_SEQ_TRIES; i++) {
		tried = take_list(class, list);
		if (tried == ABORTED && !open_own(class))
			break;
	}
	if (tried == REFUSED)
		*list = get_list(class);
	return tried;
}

void *near__front_alloc(unsigned class)
{
	uint64_t list;
	void *p;

	if (find_list(class, &list) == ABORTED)
		return near__local_alloc(class);
	if (near__list_is_empty(list))
		return NULL;
	p = near__list_take(&list);
	tally(&tally_of(class)->taken, &near__strays[class].taken);
	put_list(class, list);
	return p;
}

/* The list is full: it goes to the stash whole. */
static bool make_room(unsigned class, const void *p)
{
	uint64_t list;
	enum tried tried = take_list(class, &list);

	if (tried == COMMITTED && list == near__offset_of(p))
		near__heap_die("double free", p);
	if (tried == COMMITTED)
		put_away(class, list);
	return tried != ABORTED || open_own(class);
}

void near__front_free(unsigned class, void *p)
{
	uint64_t offset = (uintptr_t)p - near__heap.base;

	for (int i = 0; may_try() && i < NEAR_SEQ_TRIES; i++)
		if (near__push_by_slot(near__entry_of(class), p, offset))
			return;
		else if (!make_room(class, p))
			break;
	near__local_free(class, p);
}

void near__front_init(void)
{
	void *p;

	if (near__process.usable && near_percpu_alloc(&p, sizeof(struct near__front), 64) == 0)
		near__heap.front = p;
}
