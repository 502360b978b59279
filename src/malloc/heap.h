/* SPDX-License-Identifier: MIT */
/* heap: what the allocator's files share.
 *
 *     entry     malloc, free and their kin: the fast paths
 *     front     per slot: a list of free blocks for each class, behind it a stash of full lists
 *     central   per class: spans with a bit for each block, and batches on their way between slots
 *     pages     runs of granules of 16 KiB: best fit, merged when freed, given back by age
 *     os        address space
 *
 * One reservation holds all blocks. Beside it stand three tables, reserved whole and touched where
 * the heap is: `kind`, a byte per granule; `owner`, a number per granule; `meta`, descriptors. */
#ifndef NEARCPU_MALLOC_HEAP_H
#define NEARCPU_MALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../internal.h"
#include "classes.h"

#define NEAR__GRANULE_SHIFT 14
#define NEAR__GRANULE ((size_t)1 << NEAR__GRANULE_SHIFT)
#define NEAR__NONE UINT32_MAX

/* Kinds of granules: below these, the class of the span that they belong to, 0 if free. */
#define NEAR__SAMPLED 253u /* the first of a block in the heap profile; owner: profile.c */
#define NEAR__LARGE 254u   /* the first of a large block; owner: how many granules it has */
#define NEAR__REST 255u    /* the others of a large block */

struct near__range {
	char *base;
	size_t size, committed;
};

/* The first fields are what the fast paths ask. Where no thread has a slot they stay 0, so that
 * everything goes the slow way. */
struct near__heap {
	uintptr_t base;
	size_t cid_size;   /* offsets below are given back by sequences that go by the cid, */
	size_t slot_size;  /* those below by sequences that go by any slot */
	size_t cid_limit;  /* sizes below are served by sequences that go by the cid, */
	size_t slot_limit; /* those below by sequences that go by any slot */
	uint8_t *kind;
	uint32_t *owner;
	void *front; /* the per-CPU object */
	bool ready;
	uint8_t hooks; /* enum near__hooks */
	struct near__range blocks, kinds, owners, meta, dirty;
};
extern struct near__heap near__heap __attribute__((visibility("hidden")));
enum near__hooks { NEAR__UNHOOKED, NEAR__CHECKED, NEAR__PROFILED };

/* A list of free blocks is the offset of its first block in the heap. A block's link is the offset
 * behind it, and NEAR__MARK: what a program writes to a block after it was freed is no link.
 *
 * Offsets below a granule are nobody's, and what stands there is 0: no link either. */
#define NEAR__MARK UINT64_C(0x9d4f1b0000000001)
#define NEAR__UNUSED_LIST ((uint64_t)0) /* of a slot that nobody used yet */
#define NEAR__CLOSED_LIST ((uint64_t)8)
#define NEAR__EMPTY_LIST ((uint64_t)16)

static inline bool near__list_is_empty(uint64_t list)
{
	return list <= NEAR__EMPTY_LIST;
}

static inline uint64_t near__offset_of(const void *p)
{
	return (uintptr_t)p - near__heap.base;
}

/* die.c: one line that names the block, then abort. */
__attribute__((noreturn, cold)) void near__heap_die(const char *what, const void *p);
__attribute__((noreturn, cold)) void near__heap_die_block(const char *what, const void *p,
							  size_t size, const void *caller);

/* Takes the first block off *list, which is not empty. Its link is cleared: a block in use has
 * none. */
static inline void *near__list_take(uint64_t *list)
{
	uint64_t *p = (uint64_t *)(near__heap.base + *list), rest = *p - NEAR__MARK;

	if (NEAR__UNLIKELY(rest >= near__heap.blocks.size))
		near__heap_die("write to a freed block, or freed twice", p);
	*list = rest;
	*p = 0;
	return p;
}

static inline void near__list_put(uint64_t *list, void *p)
{
	*(uint64_t *)p = *list + NEAR__MARK;
	*list = near__offset_of(p);
}

/* fork.c: how each file's locks are held over a fork. */
typedef void near__fork_step(struct near_lock *lock);
void near__fork_watch(void);
void near__central_fork(near__fork_step *step);
void near__local_fork(near__fork_step *step);
void near__meta_fork(near__fork_step *step);
void near__pages_fork(near__fork_step *step);

/* init.c: false: no memory, or this is the beginning itself. */
bool near__heap_begin(void);

static inline bool near__heap_ready(void)
{
	/* Pairs with the release in near__heap_begin. */
	return NEAR__LIKELY(__atomic_load_n(&near__heap.ready, __ATOMIC_ACQUIRE)) ||
	       near__heap_begin();
}

/* os.c */
void near__range_release(struct near__range *r);
bool near__range_reserve(struct near__range *r, size_t size);
bool near__range_show(const struct near__range *r); /* all of it can be read, as zero */
bool near__range_commit(struct near__range *r, size_t size);
void near__os_discard(void *p, size_t size);
uint64_t near__os_ms(void);

/* pages.c: all in granules. */
bool near__pages_init(void);
uint32_t near__pages_alloc(uint32_t count, uint32_t align, bool *zero);
/* `dirty`: something was written there. */
void near__pages_free(uint32_t first, uint32_t count, bool dirty);
bool near__pages_grow(uint32_t first, uint32_t count, uint32_t wanted);
void near__pages_purge(uint64_t age_ms);
struct near__pages_stats {
	uint64_t top, free,
		dirty;           /* granules; dirty: of free runs in which something was written */
	uint64_t purged, purges; /* granules, and times, so far */
};
void near__pages_stats(struct near__pages_stats *out);

static inline void *near__granule_at(uint32_t granule)
{
	return (void *)(near__heap.base + ((size_t)granule << NEAR__GRANULE_SHIFT));
}

static inline uint32_t near__granule_of(const void *p)
{
	return (uint32_t)(((uintptr_t)p - near__heap.base) >> NEAR__GRANULE_SHIFT);
}

/* meta.c: descriptors, never given back to the system; by number, in units of 16 bytes. */
uint32_t near__meta_alloc(size_t size);
size_t near__meta_used(void);
static inline void *near__meta_at(uint32_t number)
{
	return near__heap.meta.base + (size_t)number * 16;
}

/* central.c */
uint64_t near__central_take(unsigned class);
void near__central_give(unsigned class, uint64_t list);
void near__central_age(void);
void near__central_trim(void);
void *near__central_block(const void *p); /* the beginning of the block that p points into */
struct near__central_stats {
	uint64_t out;             /* blocks that are in no span */
	uint64_t spans, carved;   /* carved: blocks of these that were ever used */
	uint64_t refills, spills; /* lists, so far */
};
void near__central_stats(unsigned class, struct near__central_stats *out);

/* front.c */
void near__front_init(void);
void *near__front_alloc(unsigned class);
void near__front_free(unsigned class, void *p);

/* drain.c: to the central lists; they fence, and a caller must not hold near__gates_lock. */
void near__drain_slot(unsigned slot);
void near__drain_all(void);
struct near__drains {
	uint64_t slots, fences; /* so far */
};
extern struct near__drains near__drains __attribute__((visibility("hidden")));

/* age.c: called on slow paths. */
void near__age(void);

/* local.c */
void near__local_init(void);
void *near__local_alloc(unsigned class);
void near__local_free(unsigned class, void *p);
struct near__local_stats {
	uint64_t taken, missed, freed; /* blocks, so far */
};
/* Of the threads that have lists of their own, and of those that share some. */
void near__local_stats(unsigned class, struct near__local_stats *own,
		       struct near__local_stats *shared);
uint64_t near__local_threads(void);

/* large.c: NULL: no memory, and what was there stays. */
void *near__large_alloc(size_t size, size_t align, bool *zero);
void near__large_free(void *p);
size_t near__large_size(const void *p);
void *near__large_resize(void *p, size_t size);
struct near__large_stats {
	uint64_t taken, freed; /* blocks, so far */
	uint64_t granules;     /* in use */
};
extern struct near__large_stats near__large_stats __attribute__((visibility("hidden")));

/* entry.c, aligned.c: NULL and ENOMEM: no memory. The plain ones know nothing of hooks. */
void *near__alloc_class(unsigned class);
void *near__alloc_aligned(size_t align, size_t n, const void *caller);
void *near__plain_alloc(size_t align, size_t n, bool *zero);
void near__plain_free(void *p);
size_t near__usable_size(const void *p);

#endif
