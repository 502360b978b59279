/* SPDX-License-Identifier: MIT */
/* stash: full lists of a slot. Blocks that wander from CPU to CPU take their cache lines with them,
 * so that a slot keeps what it may hold, before anything goes to the central lists.
 *
 * All slots together hold near__malloc_conf.cache bytes in their stashes. A slot takes leave to
 * hold some of them, in large pieces, and gives it back as it ages. How much a slot holds is
 * counted beside the sequences, by whoever has just moved a list, who may have left the slot by
 * then: it is about right, and counted anew with each step of age. */
#include "malloc/base/conf.h"
#include "malloc/cache/cache.h"

#define STEP_MS 250
#define PIECE ((uint64_t)512 << 10) /* of leave */
#define MOST_AT_ONCE 32             /* lists that a step gives away */
#define LARGE_LISTS 4u              /* of each of the largest classes, at most: */
#define LARGE_SHARE 256             /* and no more than a part in so many of the heap */

/* ---- sequences ---- */

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
static enum near__tried stash_push(unsigned class, uint64_t list, uint64_t limit)
{
	uint64_t at, n, to, tmp;

	if (!NEAR__HAS_SEQ)
		return NEAR__ABORTED;
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
	NEAR__RETURN_TRIED;
}

/* n = stashed; list = stash[n - 2]; stashed = n - 1 commits. */
static enum near__tried stash_pop(unsigned class, uint64_t *list)
{
	uint64_t at, n, from, tmp;

	if (!NEAR__HAS_SEQ)
		return NEAR__ABORTED;
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
	NEAR__RETURN_TRIED;
}

/* ---- what a slot may hold ---- */

static uint64_t leased; /* of all slots */

/* A limit alone, which orders nothing: hence relaxed. */
static bool lease(struct near__front *f)
{
	uint64_t all = __atomic_load_n(&leased, __ATOMIC_RELAXED);

	do {
		if (all + PIECE > near__malloc_conf.cache)
			return false;
	} while (!__atomic_compare_exchange_n(&leased, &all, all + PIECE, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	__atomic_fetch_add(&f->leave, PIECE, __ATOMIC_RELAXED);
	return true;
}

static bool may_hold(struct near__front *f, uint64_t bytes)
{
	uint64_t held = __atomic_load_n(&f->held, __ATOMIC_RELAXED) + bytes;

	while (held > __atomic_load_n(&f->leave, __ATOMIC_RELAXED))
		if (!lease(f))
			return false;
	return true;
}

/* Keeps a piece more than it needs. */
static void give_leave_back(struct near__front *f)
{
	uint64_t held = __atomic_load_n(&f->held, __ATOMIC_RELAXED);
	uint64_t leave = __atomic_load_n(&f->leave, __ATOMIC_RELAXED);

	while (leave > held + 2 * PIECE)
		if (__atomic_compare_exchange_n(&f->leave, &leave, leave - PIECE, true,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			__atomic_fetch_sub(&leased, PIECE, __ATOMIC_RELAXED);
			leave -= PIECE;
		}
}

void near__stash_emptied(struct near__front *f)
{
	__atomic_store_n(&f->held, 0, __ATOMIC_RELAXED);
	give_leave_back(f);
}

static void count_held(struct near__front *f, int64_t bytes)
{
	uint64_t held = __atomic_load_n(&f->held, __ATOMIC_RELAXED);

	if (bytes < 0 && held < (uint64_t)-bytes)
		bytes = -(int64_t)held;
	__atomic_store_n(&f->held, held + (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* ---- put, get ---- */

/* Of the largest classes none, until the heap is so large that they matter little. It never becomes
 * smaller: what was stashed is found. */
static unsigned most_lists(unsigned class)
{
	uint64_t heap, lists;

	if (near__sizes[class].lists)
		return near__sizes[class].lists;
	heap = (uint64_t)near__pages_used() << NEAR__GRANULE_SHIFT;
	lists = heap / LARGE_SHARE / near__batch_bytes(class);
	return lists < LARGE_LISTS ? (unsigned)lists : LARGE_LISTS;
}

void near__stash_put(unsigned class, uint64_t list)
{
	struct near__front *f = near__front_now();
	unsigned most = most_lists(class);
	bool may = f && most && may_hold(f, near__batch_bytes(class));

	list = near__central_send_home(class, list);
	if (near__list_is_empty(list))
		return;
	for (int i = 0; may && i < NEAR_SEQ_TRIES; i++) {
		enum near__tried tried = stash_push(class, list, most);

		if (tried == NEAR__COMMITTED) {
			count_held(f, (int64_t)near__batch_bytes(class));
			near__tally(&near__tally_of(class)->spills, &near__strays[class].spills);
			return;
		}
		if (tried == NEAR__REFUSED || !near__front_open(class))
			break;
	}
	near__central_give(class, list);
}

static bool pop(unsigned class, uint64_t *list)
{
	enum near__tried tried = NEAR__ABORTED;

	for (int i = 0; tried == NEAR__ABORTED && i < NEAR_SEQ_TRIES; i++)
		tried = stash_pop(class, list);
	return tried == NEAR__COMMITTED;
}

/* Of the stash from which a list was just taken. */
static void note_taken(unsigned class)
{
	struct near__front *f = near__front_now();
	uint32_t left;

	if (!f)
		return;
	count_held(f, -(int64_t)near__batch_bytes(class));
	left = __atomic_load_n(&f->stashed[class], __ATOMIC_RELAXED);
	if (left < __atomic_load_n(&f->fewest[class], __ATOMIC_RELAXED))
		__atomic_store_n(&f->fewest[class], left, __ATOMIC_RELAXED);
}

uint64_t near__stash_get(unsigned class)
{
	uint64_t list;

	if (!most_lists(class) || !pop(class, &list))
		return near__central_take(class);
	note_taken(class);
	near__tally(&near__tally_of(class)->refills, &near__strays[class].refills);
	return list;
}

/* ---- age ---- */

/* Half of what was idle, so that a stash that is needed now and then goes slowly. Returns how many
 * lists are left to give away. */
static int age_class(struct near__front *f, unsigned class, int left)
{
	uint32_t stashed = __atomic_load_n(&f->stashed[class], __ATOMIC_RELAXED);
	uint32_t fewest = __atomic_load_n(&f->fewest[class], __ATOMIC_RELAXED);
	uint32_t idle = fewest < stashed ? fewest : stashed;
	uint64_t list;

	for (idle = idle / 2; idle > 0 && left > 0 && pop(class, &list); idle--, left--)
		near__central_give(class, list);
	stashed = __atomic_load_n(&f->stashed[class], __ATOMIC_RELAXED);
	__atomic_store_n(&f->fewest[class], stashed, __ATOMIC_RELAXED);
	return left;
}

static void count_anew(struct near__front *f)
{
	uint64_t held = 0;

	for (unsigned class = 1; class <= NEAR__SIZES; class ++) {
		uint32_t n = __atomic_load_n(&f->stashed[class], __ATOMIC_RELAXED);

		if (n - 1 <= NEAR__STASH) /* neither unused nor closed */
			held += (n - 1) * near__batch_bytes(class);
	}
	__atomic_store_n(&f->held, held, __ATOMIC_RELAXED);
}

void near__stash_age(uint64_t now)
{
	struct near__front *f = near__heap.front ? near__front_now() : NULL;
	uint64_t due = f ? __atomic_load_n(&f->due, __ATOMIC_RELAXED) : 0;
	int left = MOST_AT_ONCE;

	if (!f || now < due ||
	    !__atomic_compare_exchange_n(&f->due, &due, now + STEP_MS, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	for (unsigned class = 1; class <= NEAR__SIZES; class ++)
		left = age_class(f, class, left);
	count_anew(f);
	give_leave_back(f);
}
