/* SPDX-License-Identifier: MIT */
/* heap: the data that all levels share; src/malloc/README.md has the levels.
 *
 * All blocks are in one part of the address space, which the NUMA nodes share (pages/node.h).
 * Tables in front of it grow with it: the page map, a byte per page; `owner`, a number per page;
 * `dirty`, a bit per page; `meta`, descriptors. `dirty` and `meta` grow downwards, from where the
 * page map and the blocks begin: the parts that a small heap uses are close together, and need few
 * page tables (api/malloc_init.c). Other code may map pages in all these parts; the heap passes
 * over them: pages/node.h, meta.c. */
#ifndef NEARCPU_MALLOC_HEAP_H
#define NEARCPU_MALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <nearcpu/lock.h>

#include "base/fork.h"
#include "base/page.h"
#include "cache/list.h"
#include "malloc/base/classes.h"
#include "malloc/base/os.h"
#include "percpu/percpu.h"

#define NEAR__PAGE_SHIFT 12
_Static_assert(NEAR__PAGE == (size_t)1 << NEAR__PAGE_SHIFT, "pages");
#define NEAR__NONE UINT32_MAX
/* The pages of the largest heap, 16 TiB. The end of a run does not wrap, even when it is rounded up
 * to a whole word of `dirty`, and no page is NEAR__NONE. Only a count that the program requested
 * can be too large: ends that are computed from it have 64 bits until they are compared. */
#define NEAR__MAX_PAGES (UINT32_MAX - 63u)
#define NEAR__MAX_NODES 64

/* Tags of pages, in the page map: the class of the page's span, 0 if the page is free, one of
 * these, or a part of a span (near__parts). A slot's cache has an entry for each tag below
 * NEAR__TAGS; the entries of tags that are no class are never used. */
#define NEAR__SAMPLED (NEAR__SIZES + 1u) /* the first page of a block in the heap profile */
#define NEAR__LARGE (NEAR__SIZES + 2u)   /* the first page of a large block; owner: its pages */
#define NEAR__REST (NEAR__SIZES + 3u)    /* the other pages of a large block */

/* The fast paths read the first fields. Where no thread has a slot, these stay 0, and every call
 * takes the slow path. */
struct near__heap {
	uintptr_t base;
	size_t cid_size;     /* blocks at offsets below are freed by sequences indexed by the cid */
	size_t cid_limit;    /* sizes below are allocated by sequences indexed by the cid, */
	size_t slot_limit;   /* those below by sequences indexed by any slot */
	uint64_t key;        /* of links, cache/list.h */
	uint64_t list_limit; /* sequences take blocks off lists whose words are below */
	size_t local_size;   /* the same for thread caches, in processes without sequences */
	size_t local_limit;
	size_t slot_size;  /* as cid_size, where slots are not indexed by the cid alone; else 0 */
	size_t known_size; /* the classes of blocks at offsets below are their sizes: no hook */
	uint8_t *page_map;
	uint32_t *owner;
	uint64_t *dirty;            /* its end: the first word is dirty[-1] */
	struct near__cache *caches; /* per-CPU: one for each slot */
	size_t size;                /* of the address space for blocks */
	/* As cid_size and cid_limit, for the operators of C++; 0 until the first of them has found
	 * that malloc is not replaced (api/other.h). */
	size_t new_size, new_limit;
	unsigned nodes;
	bool ready;
	bool operators; /* those of C++ have limits */
	uint8_t hooks;  /* enum near__hooks */
	struct near__range meta;
	struct near_lock beginning; /* held while it begins */
	size_t highest;             /* the highest end that was published, if there is one node */
	bool damaged;               /* misuse was found: relaxed, it orders nothing */
	/* Bytes of malloc_cache: the quotas of slots, and lists in chains. */
	uint64_t cache_taken __attribute__((aligned(NEAR__CACHE_LINE)));
};
extern struct near__heap near__heap __attribute__((visibility("hidden")));
enum near__hooks { NEAR__UNHOOKED, NEAR__CHECKED, NEAR__PROFILED, NEAR__PERTURBED, NEAR__ORDERED };

/* It begins with the first allocation, and never where another malloc serves the program. Acquire:
 * pairs with the release in near__heap_begin. */
static inline bool near__heap_has_begun(void)
{
	return __atomic_load_n(&near__heap.ready, __ATOMIC_ACQUIRE);
}

static inline bool near__heap_is_damaged(void)
{
	return __atomic_load_n(&near__heap.damaged, __ATOMIC_RELAXED);
}

/* Blocks may be below the offset `end` from now on; `used` bytes of the heap were ever used. The
 * caller holds the lock of a node's pages. A process whose slots are indexed by the cid has one
 * such lock. */
void near__heap_publish(size_t end, size_t used);
/* Sets the limits of the fast paths: at the end of initialisation, and when the hooks change. */
void near__heap_set_limits(void);
/* Called while new_limit differs from cid_limit, where the operators of C++ go by this malloc. */
void near__heap_open_operators(void);

/* How the allocator waits for its locks. Their holders need a fraction of a microsecond, but
 * near_lock yields after one try, and a thread that yields while others compute does not run again
 * for milliseconds. A waiter here tries for two microseconds first: only a holder that was
 * preempted keeps a lock for longer. */
void near__heap_lock_slow(struct near_lock *lock);

static inline void near__heap_lock(struct near_lock *lock)
{
	if (__builtin_expect(near__lock_fast(lock), 1))
		NEAR__WATCHED_ACQUIRE(lock);
	else
		near__heap_lock_slow(lock);
}

static inline uint64_t near__offset_of(const void *p)
{
	return (uintptr_t)p - near__heap.base;
}

/* malloc_die.c: print one line that names the block, then abort. The caller holds no lock: a
 * handler of SIGABRT may allocate, and fork. */
__attribute__((noreturn, cold)) void near__heap_die(const char *what, uint64_t offset);
struct near__origin {
	size_t size;
	const void *allocated, *freed; /* the callers' addresses; NULL: none */
};
__attribute__((noreturn, cold)) void near__heap_die_block(const char *what, const void *p,
							  const struct near__origin *block);

/* The same for code that may be called with a lock: between the two calls the thread only records
 * the first misuse, and goes on without the block or the rest of the list. The second call is made
 * without the lock, and reports it. */
struct near__deferred {
	const char *what;
	const void *p;
	struct near__deferred *outer;
};
void near__defer_begin(struct near__deferred *d);
void near__defer_end(const struct near__deferred *d);
__attribute__((cold)) void near__heap_misuse(const char *what, const void *p);

/* Lists of free blocks, which cache/list.h describes, are in the heap. */
static inline struct near__space near__heap_space(void)
{
	return (struct near__space){near__heap.base, near__heap.key, near__heap.size,
				    near__heap_misuse};
}

static inline unsigned near__list_length(uint64_t list)
{
	return near__space_length(near__heap_space(), list);
}

static inline uint64_t near__list_waiting(uint64_t list)
{
	return near__space_waiting(near__heap_space(), list);
}

static inline uint64_t near__link(uint64_t list, uint64_t rest)
{
	return near__space_link(near__heap_space(), list, rest);
}

static inline uint64_t near__unlink(uint64_t list, uint64_t link)
{
	return near__space_unlink(near__heap_space(), list, link);
}

static inline uint64_t *near__list_block(uint64_t list)
{
	return near__space_block(near__heap_space(), list);
}

static inline uint64_t near__list_rest(uint64_t list)
{
	return near__space_rest(near__heap_space(), list);
}

/* The first word of a block that is in its span: neither a link nor what a program writes. */
static inline uint64_t near__span_mark(const void *p)
{
	return ~((near__offset_of(p) ^ near__heap.key) << 8);
}

static inline void *near__list_take(uint64_t *list)
{
	return near__space_take(near__heap_space(), list);
}

static inline void near__list_put(uint64_t *list, void *p)
{
	near__space_put(near__heap_space(), list, p);
}

/* The same for the block at an offset. */
static inline void near__list_push(uint64_t *list, uint64_t block)
{
	near__space_push(near__heap_space(), list, block);
}

/* Whether a block begins at this offset, in a page with this tag, which is no part of a span. */
static inline bool near__begins_here(unsigned tag, uint64_t offset)
{
	return (uint32_t)(offset % NEAR__SMALL_SPAN) * near__steps[tag] < near__steps[tag];
}

/* Whether a block of a class begins at this offset, in a page with any tag. If so, *class is that
 * class. */
static inline bool near__begins(unsigned tag, uint64_t offset, unsigned *class)
{
	const struct near__part *part;

	*class = tag;
	if (NEAR__LIKELY(near__begins_here(tag, offset)))
		return true;
	if (tag < NEAR__TAGS)
		return false;
	part = &near__parts[tag - NEAR__TAGS];
	*class = part->class;
	return (uint32_t)(offset % NEAR__PAGE + part->before) * part->step < part->step;
}

/* Whether a block of a class begins at this offset, below `end`; *class is that class then. */
static inline bool near__begins_below(size_t end, uint64_t offset, unsigned *class)
{
	unsigned tag;

	if (NEAR__UNLIKELY(offset >= end))
		return false;
	tag = near__heap.page_map[offset >> NEAR__PAGE_SHIFT];
	return NEAR__LIKELY(near__begins(tag, offset, class));
}

/* The class of the blocks in pages with this tag; 0: none. */
static inline unsigned near__class_of_tag(unsigned tag)
{
	if (tag >= NEAR__TAGS)
		return near__parts[tag - NEAR__TAGS].class;
	return tag <= NEAR__SIZES ? tag : 0;
}

/* The caller owns the page; its neighbours check whether it is free (pages/pages.c). */
static inline void near__set_tag(uint32_t page, uint8_t tag)
{
	__atomic_store_n(&near__heap.page_map[page], tag, __ATOMIC_RELAXED);
}

/* Of the heap in one of the system's pages: 1, or a power of two. The heap's base is a multiple of
 * both, so that the pages of a number which is a multiple of this begin at one of the system's. */
static inline uint32_t near__system_page(void)
{
	return (uint32_t)(near__page_size() >> NEAR__PAGE_SHIFT);
}

static inline void *near__page_at(uint32_t page)
{
	return (void *)(near__heap.base + ((size_t)page << NEAR__PAGE_SHIFT));
}

static inline uint32_t near__page_of(const void *p)
{
	return (uint32_t)(((uintptr_t)p - near__heap.base) >> NEAR__PAGE_SHIFT);
}

/* The node that this thread runs on. */
unsigned near__node_now(void);

/* meta.c: descriptors, which are zero and never given back to the system; by number, in units. 0:
 * no memory, or more than the numbers can name. */
#define NEAR__META_UNIT ((size_t)16)
void near__meta_begin(char *base, size_t size);
uint32_t near__meta_alloc(size_t size);
/* For runs of free pages: from the third that they have for themselves, too. */
uint32_t near__meta_alloc_run(size_t size);
size_t near__meta_used(void);
size_t near__meta_committed(void);
/* Makes sure that this size can be allocated later, or all that there can be. */
bool near__meta_keep(size_t size);
void near__meta_fork(near__fork_step *step);
static inline void *near__meta_at(uint32_t number)
{
	return near__heap.meta.base - (size_t)number * NEAR__META_UNIT;
}

static inline uint64_t near__batch_bytes(unsigned class)
{
	return (uint64_t)near__sizes[class].size * near__sizes[class].batch;
}

#endif
