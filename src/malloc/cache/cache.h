/* SPDX-License-Identifier: MIT */
/* cache: the per-CPU cache, and the sequences that change it.
 *
 * The copy of a slot has for each class a list of free blocks in one word (base/heap.h), and a
 * transfer cache: an array of full lists, and how many of its elements are valid. Each operation
 * commits by one store: to the list's word, or to the number of valid lists. Nothing reads the
 * elements beyond that number.
 *
 * Another thread of the same slot, a signal handler and a migration abort a sequence that they
 * interrupt. A thread that is not live, such as the child of a vfork, has the slot that is never
 * open, in which all words are 0. So does a slot that is not in use yet: 0 is a list that no
 * sequence changes.
 *
 * A thread that empties another slot (drain.c) exchanges the list's word for NEAR__CLOSED_LIST,
 * which no sequence changes either, and issues a fence. A sequence that had loaded the word
 * before the exchange may commit until the fence. The word is then not the one that the closer
 * stored, and the closer takes the new word in the same way. After the fence no thread holds the
 * old word. Opening needs no fence, since it is one store: a sequence sees the word before or after
 * it. */
#ifndef NEARCPU_MALLOC_CACHE_H
#define NEARCPU_MALLOC_CACHE_H

#include "malloc/base/lookup.h"

/* The slow paths' counts, for near_malloc_stats. */
struct near__tally {
	int64_t taken;           /* blocks */
	int64_t refills, spills; /* lists, from the transfer cache and into it */
};

/* Numbers that are "about" right are stored outside of sequences, by a thread that may have left
 * the slot by then. */
struct near__cache {
	struct near__entry entries[NEAR__TAGS];
	uint32_t transfers[NEAR__SIZES + 1]; /* valid lists, plus 1; 0: not in use yet */
	uint32_t fewest[NEAR__SIZES + 1];    /* since the slot's last step of decay; about */
	bool spilled[NEAR__SIZES + 1];       /* the last list that moved left the slot; about */
	uint64_t due;                        /* time of the next step, ms; 0: slot not in use */
	uint64_t held, quota;                /* bytes in the transfer cache, about; its share */
	uint64_t seen, seen_at;              /* background.c's: the lists when they last changed */
	struct near__tally tallies[NEAR__SIZES + 1];
	uint64_t transfer[NEAR__LISTS]; /* by class, from near__sizes[class].row on */
};

/* The overflow counters: the same for threads that lost their slot before they could count. */
extern struct near__tally near__overflow[NEAR__SIZES + 1] __attribute__((visibility("hidden")));

static inline struct near__tally *near__tally_of(unsigned class)
{
	return &near__heap.caches->tallies[class];
}

/* slot.c */
void near__cache_init(void);
/* Adds 1 to a number of this thread's slot, or else to the overflow counter. */
void near__tally(int64_t *own, int64_t *overflow);
/* The cache of the slot that this thread is on now: a hint, to read and to change numbers that are
 * about right. NULL: no slot, or it is not in use. */
struct near__cache *near__cache_now(void);
/* Makes this thread's slot ready. False: it is closed, or this thread has none. */
bool near__cache_open(unsigned class);
/* Finds the first slot in use at or after *slot that sequences change. False: there is none. */
bool near__cache_next(unsigned *slot);

/* cache.c: false: this thread has no slot. *p NULL: no memory. */
bool near__cache_alloc(unsigned class, void **p);
bool near__cache_free(unsigned class, void *p);
/* Gives away the lists of large blocks that this slot has. */
void near__cache_give_large(void);

/* transfer.c: puts a list into this slot's transfer cache, or the central lists; takes one from
 * there, or an untouched block (near__central_fetch). An empty list, and none: no memory. */
void near__transfer_put(unsigned class, uint64_t list);
uint64_t near__transfer_get(unsigned class, void **untouched);
/* Gives away half of the lists that this slot's transfer cache did not need since the last step. */
void near__transfer_decay(uint64_t now);
/* How many lists of a class a transfer cache may have. */
unsigned near__transfer_most(unsigned class);
/* After another slot was emptied: returns its quota. */
void near__transfer_emptied(struct near__cache *cache);

/* thread_cache.c: for threads that have no slot. */
void near__thread_cache_init(void);
void *near__thread_cache_alloc(unsigned class);
void near__thread_cache_free(unsigned class, void *p);
/* Gives the lists of this thread away, and the shared ones. */
void near__thread_cache_empty(void);
struct near__thread_cache_stats {
	uint64_t taken, missed; /* blocks, so far */
	int64_t in_use;         /* more blocks were taken than freed; here, not in all */
	uint64_t cached;        /* blocks, now: of the shared lists alone */
};
/* The sums of the threads that have lists of their own, and of those that share some. */
void near__thread_cache_stats(unsigned class, struct near__thread_cache_stats *own,
			      struct near__thread_cache_stats *others);
uint64_t near__thread_cache_count(void);
void near__thread_cache_fork(near__fork_step *step);
void near__thread_cache_fork_child(void);

/* drain.c: move what slots have to the central lists. They issue fences. */
void near__drain_slot(unsigned slot);
void near__drain_all(void);
struct near__drains {
	uint64_t slots, fences; /* so far */
};
extern struct near__drains near__drains __attribute__((visibility("hidden")));
void near__drain_fork(near__fork_step *step);

/* decay.c: called once per slow path, without locks. */
void near__decay(void);
/* Moves the content of all caches to the spans, except for the lists of other threads. */
void near__reclaim(void);

/* The outcome of a sequence, as near_seq_result. REFUSED: a branch went to that label. */
enum near__tried { NEAR__ABORTED, NEAR__COMMITTED, NEAR__REFUSED };

/* The entry of a class, in the copy that all addresses are computed from. */
static inline struct near__entry *near__entry_of(unsigned class)
{
	return &near__heap.caches->entries[class];
}

/* at, an entry, becomes that of this thread's slot. */
#define NEAR__AT_CID(at, w) NEAR_INDEX_CID(w) NEAR_SHIFT_LEFT(w, 20) NEAR_ADD(at, w)
#define NEAR__AT_SLOT(at, w) NEAR_OFFSET_UNCHECKED(w) NEAR_ADD(at, w)

/* clang-format off */

/* w = entry.list; own = key ^ w; rest = (the link of its first block) >> 8 ^ own, the decoded link;
 * entry.list = rest commits, if that is a list in the heap. `own` is made while the link is loaded.
 * Reading the block is sound: no other thread takes it off this list while the sequence runs; a
 * drain reads what it took after its fence.
 * False: aborted, or there was no block. */
#define NEAR__DEFINE_POP(name, AT, IN)                                                             \
	static inline bool name(struct near__entry *at, void **block)                              \
	{                                                                                          \
		uintptr_t base = near__heap.base;                                                  \
		uint64_t own = near__heap.key, rest, w;                                            \
                                                                                                   \
		if (!NEAR__SEQ((IN),                                                               \
			AT(at, w)                                                                  \
			NEAR_LOAD8(w, at, 0)                                                       \
			NEAR_LOAD8X(rest, base, w)                                                 \
			NEAR_XOR(own, w)                                                           \
			NEAR_SHIFT_RIGHT(rest, 8)                                                  \
			NEAR_XOR(rest, own)                                                        \
			NEAR_BRANCH_NOT_BELOW(rest, limit, near_failed)                            \
			NEAR_COMMIT8(rest, at, 0),                                                 \
			(NEAR__IN_OUT(at) NEAR__OUT(w) NEAR__OUT(rest) NEAR__IN_OUT(own)),         \
			(NEAR__IN_PAIR(base, base) NEAR__IN_PAIR(limit, near__heap.list_limit))))  \
			return false;                                                              \
		*(uint64_t *)(base + w) = 0; /* no link: it is in use */                           \
		__builtin_prefetch((void *)(base + rest), 1); /* the next link */                  \
		*block = (void *)(base + w);                                                       \
		return true;                                                                       \
	}

/* w = entry.list; n = its length, in the link of its first block; p's link = w, encoded, and n + 1;
 * entry.list = p commits. n + 1 fits a byte, as the limit does. What is committed waits for no
 * load. Only the caller has p until then, so that storing the link again is harmless. Reading the
 * first block is sound, as above.
 * False: aborted, or the list is full, closed or not in use yet; or p is its first block. */
#define NEAR__DEFINE_PUSH(name, AT, IN)                                                            \
	static inline bool name(struct near__entry *at, void *p, uint64_t offset)                  \
	{                                                                                          \
		uint64_t w, n;                                                                     \
                                                                                                   \
		return NEAR__SEQ((IN),                                                             \
			AT(at, w)                                                                  \
			NEAR_LOAD8(w, at, 0)                                                       \
			NEAR_BRANCH_EQ(w, offset, near_failed)                                     \
			NEAR_BRANCH_BELOW(w, empty, near_failed)                                   \
			NEAR__LOAD1X(n, base, w)                                                   \
			NEAR__BRANCH_NOT_BELOW_MEM1(n, at, 8, near_failed)                         \
			NEAR_SHIFT_LEFT(w, 8)                                                      \
			NEAR_XOR(w, own)                                                           \
			NEAR_ADD(w, n)                                                             \
			NEAR_STORE8(w, p, 0)                                                       \
			NEAR_COMMIT8(offset, at, 0),                                               \
			(NEAR__IN_OUT(at) NEAR__OUT(w) NEAR__OUT(n)),                              \
			(NEAR__IN_PAIR(p, p) NEAR__IN_PAIR(offset, offset)                         \
			 NEAR__IN_PAIR(own, (near__heap.key ^ offset) << 8 | 1)                    \
			 NEAR__IN_PAIR(base, near__heap.base)                                      \
			 NEAR__IN_AS(NEAR__COMPARED, empty, NEAR__EMPTY_LIST)));                   \
	}
/* clang-format on */

NEAR__DEFINE_POP(near__pop_by_cid, NEAR__AT_CID, NEAR_SEQ_IN_AREA)
NEAR__DEFINE_POP(near__pop_by_slot, NEAR__AT_SLOT, NEAR_SEQ_IN)
NEAR__DEFINE_PUSH(near__push_by_cid, NEAR__AT_CID, NEAR_SEQ_IN_AREA)
NEAR__DEFINE_PUSH(near__push_by_slot, NEAR__AT_SLOT, NEAR_SEQ_IN)

#endif
