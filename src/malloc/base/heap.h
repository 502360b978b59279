/* SPDX-License-Identifier: MIT */
/* heap: what the allocator's files share.
 *
 *     entry     malloc, free and their kin: the fast paths
 *     front     per slot: a list of free blocks for each class, behind it a stash of full lists
 *     central   per class: spans with a bit for each block, or single blocks without a span, and
 *               batches on their way between slots
 *     pages     runs of granules of 4 KiB: best fit, merged when freed, given back by age
 *     space     which part of the heap belongs to which node
 *     os        address space, random numbers
 *
 * All blocks are in one part of the address space, which the NUMA nodes share (space.h). In front
 * of it are tables, which grow with it: `kind`, a byte per granule; `owner`, a number per granule;
 * `dirty`, a bit per granule; `meta`, descriptors. `dirty` and `meta` grow downwards, from where
 * `kind` and the blocks begin: what a small heap uses of them is close together, and needs few page
 * tables (init.c). */
#ifndef NEARCPU_MALLOC_HEAP_H
#define NEARCPU_MALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernel/internal.h"
#include "malloc/base/classes.h"
#include "malloc/base/os.h"

#define NEAR__GRANULE_SHIFT 12
#define NEAR__GRANULE ((size_t)1 << NEAR__GRANULE_SHIFT)
#define NEAR__NONE UINT32_MAX
/* Those of the largest heap, 16 TiB. So the end of a run does not wrap, even when it is rounded up
 * to a whole word of `dirty`, and no granule is NEAR__NONE. Only a count that the program asked for
 * can be too large: ends that are computed from it have 64 bits until they are compared. */
#define NEAR__MAX_GRANULES (UINT32_MAX - 63u)

/* Kinds of granules: the class of the span that they belong to, 0 if free, one of these, or a
 * part of a span (near__parts). A slot has an entry for each below NEAR__KINDS; those of what is no
 * class are never in use. */
#define NEAR__SAMPLED (NEAR__SIZES + 1u) /* the first of a block in the heap profile */
#define NEAR__LARGE (NEAR__SIZES + 2u)   /* the first of a large block; owner: its granules */
#define NEAR__REST (NEAR__SIZES + 3u)    /* the others of a large block */

/* The first fields are what the fast paths ask. Where no thread has a slot they stay 0, so that
 * everything goes the slow way. */
struct near__heap {
	uintptr_t base;
	size_t cid_size;   /* offsets below are given back by sequences that go by the cid, */
	size_t slot_size;  /* those below by sequences that go by any slot */
	size_t cid_limit;  /* sizes below are served by sequences that go by the cid, */
	size_t slot_limit; /* those below by sequences that go by any slot */
	uint64_t key;      /* of links, see below */
	size_t local_size; /* the same for lists of threads, in processes without sequences */
	size_t local_limit;
	uint8_t *kind;
	uint32_t *owner;
	uint64_t *dirty; /* its end: the first word is dirty[-1] */
	void *front;     /* the per-CPU object */
	size_t size;     /* of the address space for blocks */
	unsigned nodes;
	bool ready;
	uint8_t hooks; /* enum near__hooks */
	struct near__range meta;
};
extern struct near__heap near__heap __attribute__((visibility("hidden")));
enum near__hooks { NEAR__UNHOOKED, NEAR__CHECKED, NEAR__PROFILED, NEAR__PERTURBED };

/* A list of free blocks is the offset of its first block in the heap. A block's link is the offset
 * of the next one, XOR the block's own offset, XOR near__heap.key: a random number, so that nobody
 * can write a link without having read one.
 *
 * A word is a link if it decodes to less than the heap's size, 2^NEAR__OFFSET_BITS at most. Bits 63
 * and 62 of the key are 1 and 0, and those of offsets 0. So no word whose bits 63 and 62 are not 1
 * and 0 is a link, whatever the other bits of the key are: 0, integers of up to 62 bits, positive
 * or negative, addresses of programs, text. Caches rely on it: what is at offsets below a granule
 * is 0. A child of fork keeps the key, as it keeps the lists. */
#define NEAR__OFFSET_BITS 44
#define NEAR__KEY(random) (((random) | UINT64_C(1) << 63) & ~(UINT64_C(1) << 62))
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
struct near__told {
	size_t size;
	const void *allocated, *freed; /* by whom; NULL: nobody */
};
__attribute__((noreturn, cold)) void near__heap_die_block(const char *what, const void *p,
							  const struct near__told *block);

/* The link of the block at `offset` to the next one; and from such a link to the next one. */
static inline uint64_t near__link(uint64_t next, uint64_t offset)
{
	return next ^ offset ^ near__heap.key;
}

/* Takes the first block off *list, which is not empty. Its link is cleared: a block in use has
 * none. */
static inline void *near__list_take(uint64_t *list)
{
	uint64_t *p = (uint64_t *)(near__heap.base + *list), rest = near__link(*p, *list);

	if (NEAR__UNLIKELY(rest >= near__heap.size))
		near__heap_die("write to a freed block, or freed twice", p);
	*list = rest;
	*p = 0;
	return p;
}

static inline void near__list_put(uint64_t *list, void *p)
{
	uint64_t offset = near__offset_of(p);

	*(uint64_t *)p = near__link(*list, offset);
	*list = offset;
}

/* Whether a block begins at this offset, in a granule of this kind, which is no part of a span. */
static inline bool near__begins_here(unsigned kind, uint64_t offset)
{
	return (uint32_t)(offset % NEAR__SMALL_SPAN) * near__steps[kind] < near__steps[kind];
}

/* Whether a block of a class begins at this offset, in a granule of any kind. Then *class is its
 * class. */
static inline bool near__begins(unsigned kind, uint64_t offset, unsigned *class)
{
	const struct near__part *part;

	*class = kind;
	if (NEAR__LIKELY(near__begins_here(kind, offset)))
		return true;
	if (kind < NEAR__KINDS)
		return false;
	part = &near__parts[kind - NEAR__KINDS];
	*class = part->class;
	return (uint32_t)(offset % NEAR__GRANULE + part->before) * part->step < part->step;
}

/* The class whose blocks are in granules of this kind; 0: none. */
static inline unsigned near__class_of_kind(unsigned kind)
{
	if (kind >= NEAR__KINDS)
		return near__parts[kind - NEAR__KINDS].class;
	return kind <= NEAR__SIZES ? kind : 0;
}

/* fork.c: how each file's locks are held over a fork. */
typedef void near__fork_step(struct near_lock *lock);
void near__fork_watch(void);
void near__central_fork(near__fork_step *step);
void near__drain_fork(near__fork_step *step);
void near__local_fork(near__fork_step *step);
void near__meta_fork(near__fork_step *step);
void near__pages_fork(near__fork_step *step);

/* The node that this thread runs on. */
unsigned near__node_now(void);
/* space.c: the node of a granule in use. */
unsigned near__node_of(uint32_t granule);

/* init.c: blocks may stand below this offset. Under the lock of a node's pages, of which a process
 * that goes by the cid has one. */
void near__heap_publish(size_t end);
/* false: no memory, or this is the beginning itself. */
bool near__heap_begin(void);

static inline bool near__heap_ready(void)
{
	/* Pairs with the release in near__heap_begin. */
	return NEAR__LIKELY(__atomic_load_n(&near__heap.ready, __ATOMIC_ACQUIRE)) ||
	       near__heap_begin();
}

/* pages.c: all in granules. */
#define NEAR__MAX_NODES 64
bool near__pages_init(void);
/* NEAR__NONE: no memory. From another node if that one has none. */
uint32_t near__pages_alloc(unsigned node, uint32_t count, uint32_t align, bool *zero);
/* `dirty`: something was written there. */
void near__pages_free(uint32_t first, uint32_t count, bool dirty);
bool near__pages_grow(uint32_t first, uint32_t count, uint32_t wanted);
/* Gives back what was freed `age_ms` ago, up to `most` bytes. Returns how much. */
size_t near__pages_purge(uint64_t age_ms, size_t most);
struct near__pages_stats {
	uint64_t top, free,
		dirty;           /* granules; dirty: of free runs in which something was written */
	uint64_t purged, purges; /* granules, and times, so far */
	uint64_t committed;      /* bytes, with the tables */
};
void near__pages_stats(struct near__pages_stats *out);
/* Granules that were ever used. */
uint32_t near__pages_used(void);
/* Whether there can be a block at this offset: the tables tell which. */
bool near__pages_contain(uint64_t offset);

static inline void *near__granule_at(uint32_t granule)
{
	return (void *)(near__heap.base + ((size_t)granule << NEAR__GRANULE_SHIFT));
}

static inline uint32_t near__granule_of(const void *p)
{
	return (uint32_t)(((uintptr_t)p - near__heap.base) >> NEAR__GRANULE_SHIFT);
}

/* kind.c: as those below, for runs from NEAR__LONG on. */
#define NEAR__LONG 4096u
void near__kind_mark_long(uint32_t first, uint32_t count);
void near__kind_unmark_long(uint32_t first, uint32_t count);

/* Makes a run not free: its ends become NEAR__REST, and what is in between, or 0. */
static inline void near__kind_mark(uint32_t first, uint32_t count)
{
	if (NEAR__LIKELY(count < NEAR__LONG))
		memset(near__heap.kind + first, NEAR__REST, count);
	else
		near__kind_mark_long(first, count);
}

/* Makes a run free, whatever its kinds were. */
static inline void near__kind_unmark(uint32_t first, uint32_t count)
{
	if (NEAR__LIKELY(count < NEAR__LONG))
		memset(near__heap.kind + first, 0, count);
	else
		near__kind_unmark_long(first, count);
}

/* Of a granule that is the caller's; neighbours look whether it is free (pages.c). */
static inline void near__set_kind(uint32_t granule, uint8_t kind)
{
	__atomic_store_n(&near__heap.kind[granule], kind, __ATOMIC_RELAXED);
}

/* meta.c: descriptors, never given back to the system; by number, in units. They are zero. 0: no
 * memory, or more than the numbers can name. */
#define NEAR__META_UNIT ((size_t)16)
uint32_t near__meta_alloc(size_t size);
size_t near__meta_used(void);
bool near__meta_keep(size_t size); /* so much can be had, later on, or all that there can be */
static inline void *near__meta_at(uint32_t number)
{
	return near__heap.meta.base - (size_t)number * NEAR__META_UNIT;
}

static inline uint64_t near__batch_bytes(unsigned class)
{
	return (uint64_t)near__sizes[class].size * near__sizes[class].batch;
}

#define NEAR__MOST_LISTS 16 /* of one class, in one cache */

/* central.c */
bool near__central_init(void);
uint64_t near__central_take(unsigned class);
/* Stops the program if the block is free already: in its span, or with the pages. */
void near__refuse_freed(unsigned class, const void *p);
void near__central_give(unsigned class, uint64_t list);
/* Gives away the blocks of other nodes than this one; returns the others. */
uint64_t near__central_send_home(unsigned class, uint64_t list);
void near__central_age(void);
void near__central_trim(void);
/* Gives the pages of free blocks back, in spans of which other blocks are in use. Returns how many
 * bytes. */
size_t near__central_discard(void);
struct near__central_stats {
	uint64_t out;             /* blocks that are in no span */
	uint64_t spans, carved;   /* carved: blocks of these that were ever used */
	uint64_t refills, spills; /* lists, so far */
	uint64_t waiting;         /* lists, now */
};
void near__central_stats(unsigned class, struct near__central_stats *out);

/* front.c */
void near__front_init(void);
void *near__front_alloc(unsigned class);
void near__front_free(unsigned class, void *p);

/* drain.c: to the central lists. They fence. */
void near__drain_slot(unsigned slot);
void near__drain_all(void);
struct near__drains {
	uint64_t slots, fences; /* so far */
};
extern struct near__drains near__drains __attribute__((visibility("hidden")));

/* trim.c: what all caches hold goes to the spans. */
void near__reclaim(void);

/* age.c: called on slow paths. */
void near__age(void);

/* local.c */
void near__local_init(void);
void *near__local_alloc(unsigned class);
void near__local_free(unsigned class, void *p);
/* The same without anything but the thread's own list. NULL, false: it takes more than that. */
void *near__local_take(unsigned class);
bool near__local_put(unsigned class, void *p);
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
