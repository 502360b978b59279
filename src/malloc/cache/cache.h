/* SPDX-License-Identifier: MIT */
/* front: a slot's caches, and the sequences that change them.
 *
 * The copy of a slot has for each class a list of free blocks in one word (heap.h) and a stash: an
 * array of lists, and how many of them count. Each operation commits by one store: of the list's
 * word, or of the stash's number, beyond which nobody looks.
 *
 * Who can be between which two instructions: another thread of the same slot, a signal handler, a
 * migration: the kernel aborts the sequence. A thread that is not live, the child of a vfork among
 * them, has the slot that is never open, in which all is 0; so has one that nobody used: 0 is a
 * list without a block to take and without room.
 *
 * Who takes what another slot has (drain.c) exchanges the word for NEAR__CLOSED_LIST, which is as
 * barren, and fences. A sequence that had loaded the word before may commit up to the fence. Then
 * the word is not what the closer stored: what it took has been changed, it takes the new word the
 * same way. After the fence nobody has the old one. There is no second fence, since what is opened
 * again is one word: a sequence sees either. */
#ifndef NEARCPU_MALLOC_FRONT_H
#define NEARCPU_MALLOC_FRONT_H

#include "malloc/base/heap.h"

#define NEAR__STASH NEAR__MOST_LISTS

/* `count` has two numbers, which change before the commit, and so once more for each sequence that
 * is aborted in between: the low two bytes are the room, about how many more blocks the list may
 * get; the others, how many were taken. */
struct near__entry {
	uint64_t list;
	union {
		uint64_t count;
		uint16_t room;
	};
};
#define NEAR__TAKEN_SHIFT 16
#define NEAR__ONE_TAKEN (((uint64_t)1 << NEAR__TAKEN_SHIFT) + 1) /* which makes room, too */

/* What slow paths did, for near_malloc_stats. */
struct near__tally {
	int64_t taken;           /* blocks */
	int64_t refills, spills; /* lists, from the stash and into it */
};

struct near__front {
	struct near__entry entries[NEAR__KINDS];
	uint32_t stashed[NEAR__SIZES + 1]; /* lists in the stash, and 1; 0: not in use yet */
	uint32_t fewest[NEAR__SIZES + 1];  /* since the slot's last step of age; about */
	uint64_t due;                      /* when the next one is, ms; 0: the slot is not in use */
	uint64_t held, leave;              /* bytes: stashed, about; that it may hold */
	uint64_t seen, seen_at;            /* background.c's: the counts when they last changed */
	bool drained;                      /* and that nothing is left since */
	/* What the room lost, in sum, each time it was set: room + settled is how many more blocks
	 * were taken than put. About: once more for a sequence that is aborted in between. */
	int64_t settled[NEAR__SIZES + 1];
	struct near__tally tallies[NEAR__SIZES + 1];
	uint64_t stash[NEAR__SIZES + 1][NEAR__STASH];
};
_Static_assert(offsetof(struct near__entry, count) == 8, "the sequences");

/* The same for threads that lost their slot meanwhile. */
extern struct near__tally near__strays[NEAR__SIZES + 1] __attribute__((visibility("hidden")));

static inline struct near__tally *near__tally_of(unsigned class)
{
	return &((struct near__front *)near__heap.front)->tallies[class];
}

/* Adds 1 to a number of the own slot, or else to the other. */
void near__tally(int64_t *own, int64_t *stray);

/* The own slot, at this moment: to look at, and to change what is said to be about. NULL: none, or
 * not in use. */
struct near__front *near__front_now(void);

/* Makes the own slot ready. False: it is closed, or this thread has none. */
bool near__front_open(unsigned class);

/* What became of a sequence; REFUSED: it found that it should not. */
enum near__tried { NEAR__ABORTED, NEAR__REFUSED, NEAR__COMMITTED };

/* How a function ends whose sequence leaves by near_failed or near_other. */
#define NEAR__RETURN_TRIED                                                                         \
	NEAR_SEQ_EDGE;                                                                             \
	return NEAR__COMMITTED;                                                                    \
near_failed:                                                                                       \
	NEAR_SEQ_EDGE;                                                                             \
	return NEAR__ABORTED;                                                                      \
near_other:                                                                                        \
	NEAR_SEQ_EDGE;                                                                             \
	return NEAR__REFUSED

/* stash.c: puts a list where this slot, or any, finds it; gets one. An empty one: no memory. */
void near__stash_put(unsigned class, uint64_t list);
uint64_t near__stash_get(unsigned class);

/* Gives away what the own slot's stash did not need since its last step; a slow path's look at the
 * clock. What it may hold goes back to all when another slot was emptied. */
void near__stash_age(uint64_t now);
void near__stash_emptied(struct near__front *front);

/* The entry of a class, in the copy that all addresses are made from. */
static inline struct near__entry *near__entry_of(unsigned class)
{
	return &((struct near__front *)near__heap.front)->entries[class];
}

/* at, an entry, becomes the own slot's. */
#define NEAR__AT_CID(at, w) NEAR_INDEX_CID(w) NEAR_SHIFT_LEFT(w, 20) NEAR_ADD(at, w)
#define NEAR__AT_SLOT(at, w) NEAR_OFFSET_UNCHECKED(w) NEAR_ADD(at, w)

/* clang-format off */

/* w = entry.list; rest = its first block's link, decoded; entry.list = rest commits, if that is an
 * offset. The key and the block's offset are combined while the link is being loaded.
 * Reading the block is sound: nobody else takes it off this list while the sequence runs.
 * False: aborted, or there was no block. */
#define NEAR__DEFINE_POP(name, AT, IN)                                                             \
	static inline bool name(struct near__entry *at, void **block)                              \
	{                                                                                          \
		uintptr_t base = near__heap.base;                                                  \
		uint64_t rest = near__heap.key, w, tmp;                                            \
                                                                                                   \
		if (!NEAR__HAS_SEQ)                                                                \
			return false;                                                              \
		__asm__ volatile __inline__ goto(                                                  \
			NEAR_SEQ_BEGIN                                                             \
			AT(at, w)                                                                  \
			NEAR_LOAD8(w, at, 0)                                                       \
			NEAR_XOR(rest, w)                                                          \
			NEAR_XOR_LOAD8X(rest, base, w)                                             \
			NEAR_BRANCH_NOT_BELOW(rest, limit, near_failed)                            \
			NEAR_ADD_MEM8(one, at, 8)                                                  \
			NEAR_COMMIT8(rest, at, 0)                                                  \
			: NEAR_SEQ_OUT(tmp), [at] "+&r"(at), [w] "=&r"(w), [rest] "+&r"(rest)      \
			: IN, [base] "r"(base), [limit] "r"(near__heap.slot_size),                 \
			  [one] NEAR__ADDED(NEAR__ONE_TAKEN)                                       \
			: NEAR_SEQ_CLOBBER                                                         \
			: near_failed);                                                            \
		NEAR_SEQ_EDGE;                                                                     \
		*(uint64_t *)(base + w) = 0; /* no link: it is in use */                           \
		__builtin_prefetch((void *)(base + rest), 1); /* the next link */                  \
		*block = (void *)(base + w);                                                       \
		return true;                                                                       \
	near_failed:                                                                               \
		NEAR_SEQ_EDGE;                                                                     \
		return false;                                                                      \
	}

/* p's link = entry.list, encoded; entry.list = p commits. p is the caller's alone until then, so
 * writing it again is harmless.
 * False: aborted, or there is no room or no open list, or p is the first block already. */
#define NEAR__DEFINE_PUSH(name, AT, IN)                                                            \
	static inline bool name(struct near__entry *at, void *p, uint64_t offset)                  \
	{                                                                                          \
		uint64_t w, tmp;                                                                   \
                                                                                                   \
		if (!NEAR__HAS_SEQ)                                                                \
			return false;                                                              \
		__asm__ volatile __inline__ goto(                                                  \
			NEAR_SEQ_BEGIN                                                             \
			AT(at, w)                                                                  \
			NEAR_LOAD2(w, at, 8)                                                       \
			NEAR_BRANCH_ZERO(w, near_failed)                                           \
			NEAR_LOAD8(w, at, 0)                                                       \
			NEAR_BRANCH_EQ(w, offset, near_failed)                                     \
			NEAR_BRANCH_BELOW(w, empty, near_failed)                                   \
			NEAR_XOR(w, offset)                                                        \
			NEAR_XOR(w, key)                                                           \
			NEAR_STORE8(w, p, 0)                                                       \
			NEAR_ADD_MEM8(one, at, 8)                                                  \
			NEAR_COMMIT8(offset, at, 0)                                                \
			: NEAR_SEQ_OUT(tmp), [at] "+&r"(at), [w] "=&r"(w)                          \
			: IN, [p] "r"(p), [offset] "r"(offset),                                    \
			  [key] NEAR__XORED(near__heap.key), [one] NEAR__ADDED((int64_t)-1),       \
			  [empty] NEAR__ADDED(NEAR__EMPTY_LIST)                                    \
			: NEAR_SEQ_CLOBBER                                                         \
			: near_failed);                                                            \
		NEAR_SEQ_EDGE;                                                                     \
		return true;                                                                       \
	near_failed:                                                                               \
		NEAR_SEQ_EDGE;                                                                     \
		return false;                                                                      \
	}
/* clang-format on */

NEAR__DEFINE_POP(near__pop_by_cid, NEAR__AT_CID, NEAR_SEQ_IN_AREA)
NEAR__DEFINE_POP(near__pop_by_slot, NEAR__AT_SLOT, NEAR_SEQ_IN)
NEAR__DEFINE_PUSH(near__push_by_cid, NEAR__AT_CID, NEAR_SEQ_IN_AREA)
NEAR__DEFINE_PUSH(near__push_by_slot, NEAR__AT_SLOT, NEAR_SEQ_IN)

#endif
