/* SPDX-License-Identifier: MIT */
/* malloc_cache: the per-CPU cache of the allocator: for each class a bin (src/cache/cache.h), and
 * numbers about it. */
#ifndef NEARCPU_MALLOC_CACHE_H
#define NEARCPU_MALLOC_CACHE_H

#include "cache/cache.h"
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

/* malloc_cache.c: false: this thread has no slot. *p NULL: no memory. */
bool near__cache_alloc(unsigned class, void **p);
/* `block`: its offset. */
bool near__cache_free(unsigned class, uint64_t block);
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

/* shard.c: the transfer caches of processes without sequences: lists by CPU, under locks.
 *
 * A list of at most `most` blocks, and at most a batch; from this CPU's shard, else from the
 * central lists. An empty one: no memory. Requires `most` > 0. */
uint64_t near__shard_take(unsigned class, unsigned most);
/* Gives a list away. is_short: it may be much shorter than a batch, and is joined with others. */
void near__shard_give(unsigned class, uint64_t list, bool is_short);
/* Gives away half of the lists that were not needed since the last step; all of them. */
void near__shards_decay(uint64_t now);
void near__shards_empty(void);
/* Lists that threads took from shards, and put there, so far. */
void near__shards_stats(unsigned class, uint64_t *refills, uint64_t *spills);
void near__shards_fork(near__fork_step *step);

/* thread_cache.c: for threads that have no slot. */
void near__thread_cache_init(void);
void *near__thread_cache_alloc(unsigned class);
void near__thread_cache_free(unsigned class, uint64_t block);
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

/* The entry of a class, in the copy that all addresses are computed from. */
static inline struct near__entry *near__entry_of(unsigned class)
{
	return &near__heap.caches->entries[class];
}

static inline struct near__bin near__bin_of(unsigned class)
{
	size_t number = offsetof(struct near__cache, transfers) + class * sizeof(uint32_t);

	return (struct near__bin){near__entry_of(class), &near__heap.caches->transfers[class],
				  offsetof(struct near__cache, transfer) +
					  (near__sizes[class].row - 1) * sizeof(uint64_t) - number};
}

/* The fast paths; slots are indexed by the cid, or in any way. */
static inline bool near__pop_by_cid(struct near__entry *at, void **block)
{
	return near__block_pop_by_cid(at, near__heap.base, near__heap.key, near__heap.list_limit,
				      block);
}

static inline bool near__pop_by_slot(struct near__entry *at, void **block)
{
	return near__block_pop(at, near__heap.base, near__heap.key, near__heap.list_limit, block);
}

static inline bool near__push_by_cid(struct near__entry *at, void *p, uint64_t offset)
{
	return near__block_push_by_cid(at, near__heap.base, near__heap.key, p, offset);
}

static inline bool near__push_by_slot(struct near__entry *at, uint64_t block)
{
	return near__block_push(at, near__heap.base, near__heap.key, near__list_block(block),
				block);
}

#endif
