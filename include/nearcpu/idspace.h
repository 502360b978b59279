/* SPDX-License-Identifier: MIT */
/* near_idspace: concurrency ids for workers that the program schedules itself.
 *
 * The kernel gives each running thread of a process a concurrency id (near_cid). A space does the
 * same for fibers, tasks, or threads on kernels without such ids: a worker acquires an id around a
 * piece of work; no other worker has it at that time, and ids are as small as the concurrency
 * allows. So data by id (near_idspace_alloc) needs as many copies as workers run at the same time.
 *
 * Ids are given out from the lowest on. A released id is kept in the cache of its slot, which has
 * room for one, and the next acquire there takes it. After a peak the caches are emptied: one in
 * 16,384 acquires of an id takes those from caches that were not used since the search before, and
 * exchanges its own for a lower one. In a process with one thread the lowest
 * id is taken from wherever it is cached: a single worker has one id. With several NUMA nodes an id
 * belongs to the node where it was first acquired, for the life of the space, and workers on other
 * nodes get it only if there is no other.
 *
 * Cost:      acquire and release together about 4 ns, hand_over 2 ns, no atomic instruction. If the
 *            cache has no id, or has one at release: a lock, and a search of a bitmap. A search of
 *            the caches (see above; drain): two membarriers, which interrupt all CPUs that run this
 *            process, if it finds an id.
 * Memory:    16 bytes per slot in use, a page per id that was in use and what is allocated, and
 *            `size` bytes of address space per id.
 * Safety:    any thread, not in signal handlers; near_idspace_at, near_worker_id and
 *            near_worker_must_repair in these, too. Nothing is a cancellation point. Fork: the
 *            child has its own copy of all; what workers of threads had that it does not have stays
 *            in use.
 * Order:     release happens before the acquire that returns the id. hand_over orders nothing: what
 *            switches from worker to worker does.
 * Misuse:    a worker that has an id already, or none, stops the program; so does one that is a
 *            copy of the worker that has it.
 * Fallback:  an atomic word per CPU takes the place of the slot's cache.
 *
 * Concurrent with:   acquire  release  hand_over  alloc  drain  stats  destroy
 *            each      yes      yes       yes      yes    yes    yes     no
 * (of different workers)
 *
 *     static struct near_idspace ids;
 *     static long *done;                                     // of each id
 *     near_idspace_init(&ids, NULL);
 *     near_idspace_alloc(&ids, sizeof(*done), sizeof(*done), (void **)&done);
 *     ...
 *     struct near_worker w = {0};
 *     int id = near_idspace_acquire(&ids, &w);
 *     if (id >= 0) {
 *             ++*(long *)near_idspace_at(&ids, done, id);    // no other worker has this one
 *             near_idspace_release(&ids, &w);
 *     }
 *
 * Source: Mathieu Desnoyers, "Restartable Sequences: Scheduler-Aware Scaling of Memory Use on
 * Many-Core Systems" (2022): the bitmap, the cache per run queue, the hand-over between threads of
 * a process and the constant id of a single thread. Differs in that the cache is changed by
 * restartable sequences, where the scheduler has the lock of its run queue. near_shared_ids(3) has
 * the same in memory that processes share.
 */
#ifndef NEARCPU_IDSPACE_H
#define NEARCPU_IDSPACE_H

#include <nearcpu/percpu.h>

NEAR__BEGIN_DECLS

#define NEAR_IDSPACE_MAX_IDS 65535u
#define NEAR_IDSPACE_MAX_SIZE ((size_t)1 << 30)

/* Part of what the caller schedules; all zero: it has no id. Must not be copied or moved while it
 * has one. */
struct near_worker {
	uint32_t id1; /* private: the id plus 1, or 0 */
	uint32_t must_repair;
};

/* 0: the default. */
struct near_idspace_options {
	unsigned ids; /* 1 to NEAR_IDSPACE_MAX_IDS; default 4096 */
	size_t size;  /* bytes per id for near_idspace_alloc; default 64 KiB less 64 bytes */
	uint64_t reserved[4]; /* 0 */
};

/* Private. */
struct near_idspace {
	void *slots;  /* percpu: of each its cache, struct near__id_slot */
	char *blocks; /* of each id: struct near__id, then what was allocated */
	uint64_t stride;
	uint64_t ids;
	struct near__idspace *rest;
};

/* Private: at the begin of the block of an id. The worker that has the id writes it, but for `seen`
 * and `node`. */
struct near__id {
	const struct near_worker *owner;
	uint64_t node;
	uint64_t hits;      /* how often it was acquired from a cache, */
	uint64_t transfers; /* handed over, */
	uint64_t taken;     /* and acquired otherwise */
	uint64_t seen;      /* `hits` when unused caches were searched for */
	uint64_t pad[2];
};

/* `options` may be NULL. Returns 0; -E2BIG: above a maximum; -EINVAL: a reserved word is not 0;
 * -ENOMEM: no memory or address space. */
NEAR_API int near_idspace_init(struct near_idspace *s, const struct near_idspace_options *options);

/* Frees everything, the data of all ids too. Requires that no worker has an id. */
NEAR_API void near_idspace_destroy(struct near_idspace *s);

NEAR_API int near__idspace_acquire_slow(struct near_idspace *s, struct near_worker *w);
NEAR_API int near__idspace_renew(struct near_idspace *s, struct near_worker *w);
NEAR_API void near__idspace_release_slow(struct near_idspace *s, unsigned id);
NEAR_API void near__idspace_misuse(const struct near_idspace *s, const struct near_worker *w,
				   const char *call) __attribute__((noreturn, cold));

enum { NEAR__NO_ID = NEAR_SEQ_COMMITTED + 1, NEAR__OTHER_NODE, NEAR__CACHE_FULL };
#define NEAR__IDS_TRIM ((uint64_t)16384)

/* id1 = word; word = 0 commits. The word of a slot is the cached id plus 1, or 0. */
NEAR__INLINE int near__idspace_try_acquire(void *p, uint64_t *id1)
{
	uint64_t at, cached;
	int result = NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, p)
		NEAR_BRANCH_MEM4_NE(at, 8, 1, near_failed)
		NEAR_LOAD8(cached, at, 0)
		NEAR_BRANCH_ZERO(cached, NEAR__NO_ID)
		NEAR_COMMIT8(none, at, 0),
		NEAR_OUT(at, cached), NEAR_IN(p, (none, 0)), NEAR__NO_ID);

	if (result == NEAR_SEQ_COMMITTED)
		*id1 = cached;
	return result;
}

/* word = id1 commits, if the word is 0 and the slot is of the id's node. */
NEAR__INLINE int near__idspace_try_release(void *p, uint64_t id1, uint64_t node)
{
	uint64_t at, t;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, p)
		NEAR_BRANCH_MEM4_NE(at, 8, 1, near_failed)
		NEAR_LOAD4(t, at, 12)
		NEAR_BRANCH_NE(t, node, NEAR__OTHER_NODE)
		NEAR_LOAD8(t, at, 0)
		NEAR_BRANCH_NONZERO(t, NEAR__CACHE_FULL)
		NEAR_COMMIT8(id1, at, 0),
		NEAR_OUT(at, t), NEAR_IN(p, id1, node), NEAR__OTHER_NODE, NEAR__CACHE_FULL);
}

/* Of a counter that the worker with the id alone changes, and others read: relaxed, as they take it
 * for statistics and hints. */
NEAR__INLINE uint64_t near__id_count(uint64_t *counter)
{
	uint64_t n = *counter + 1;

	__atomic_store_n(counter, n, __ATOMIC_RELAXED);
	return n;
}

NEAR__INLINE struct near__id *near__idspace_block(const struct near_idspace *s, uint64_t id)
{
	return (struct near__id *)(s->blocks + id * s->stride);
}

/* The id of the worker, or -1. */
NEAR_INLINE int near_worker_id(const struct near_worker *w)
{
	return (int)w->id1 - 1;
}

/* Of a worker with an id of near_shared_ids: the process that had the id before was killed
 * while it had it, so the data of the id may be half-changed. False for other ids. */
NEAR_INLINE bool near_worker_must_repair(const struct near_worker *w)
{
	return w->must_repair != 0;
}

/* Returns an id that no other worker has, from 0 on; -EAGAIN: all are in use; -ENOMEM: no memory
 * for an id that was never in use. */
NEAR_INLINE int near_idspace_acquire(struct near_idspace *s, struct near_worker *w)
{
	uint64_t id1;
	struct near__id *block;

	NEAR__CHECK_READY(s->slots, s);
	if (__builtin_expect(w->id1 != 0, 0))
		near__idspace_misuse(s, w, "near_idspace_acquire");
	if (__builtin_expect(near__idspace_try_acquire(s->slots, &id1) != NEAR_SEQ_COMMITTED, 0))
		return near__idspace_acquire_slow(s, w);
	block = near__idspace_block(s, id1 - 1);
	NEAR__TSAN_ACQUIRE(block);
	block->owner = w;
	w->id1 = (uint32_t)id1;
	if (__builtin_expect(near__id_count(&block->hits) % NEAR__IDS_TRIM == 0, 0))
		return near__idspace_renew(s, w);
	return (int)id1 - 1;
}

/* The worker has no id from here on. */
NEAR_INLINE void near_idspace_release(struct near_idspace *s, struct near_worker *w)
{
	uint64_t id = (uint64_t)w->id1 - 1;
	struct near__id *block = near__idspace_block(s, id);

	if (__builtin_expect(id >= s->ids || block->owner != w, 0))
		near__idspace_misuse(s, w, "near_idspace_release");
	block->owner = NULL;
	w->id1 = 0;
	NEAR__TSAN_RELEASE(block);
	if (__builtin_expect(near__idspace_try_release(s->slots, id + 1, block->node) !=
				     NEAR_SEQ_COMMITTED,
			     0))
		near__idspace_release_slow(s, (unsigned)id);
}

/* Gives the id of `from` to `to`, which runs next, and returns it. Cannot fail. */
NEAR_INLINE int near_idspace_hand_over(struct near_idspace *s, struct near_worker *from,
				       struct near_worker *to)
{
	uint64_t id = (uint64_t)from->id1 - 1;
	struct near__id *block = near__idspace_block(s, id);

	if (__builtin_expect(id >= s->ids || block->owner != from, 0))
		near__idspace_misuse(s, from, "near_idspace_hand_over");
	if (__builtin_expect(to->id1 != 0, 0))
		near__idspace_misuse(s, to, "near_idspace_hand_over");
	from->id1 = 0;
	to->id1 = (uint32_t)id + 1;
	block->owner = to;
	near__id_count(&block->transfers);
	return (int)id;
}

/* Allocates `size` bytes for each id, all zero; those of id i are at near_idspace_at(s, *out, i).
 * They keep what the id's workers left there, and are freed with the space.
 * Returns 0; -EINVAL: size is 0, or align is no power of two up to 4096; -ENOMEM: the options'
 * `size` is used up. */
NEAR_API int near_idspace_alloc(struct near_idspace *s, size_t size, size_t align, void **out);

NEAR_INLINE void *near_idspace_at(const struct near_idspace *s, const void *p, int id)
{
	return (char *)(uintptr_t)p + (uint64_t)id * s->stride;
}

/* Empties the caches: the lowest ids are given out next. Two membarriers, if there are cached ids.
 * Returns how many there were. */
NEAR_API unsigned near_idspace_drain(struct near_idspace *s);

/* How often ids came and went, since init. Later versions add fields at the end. */
struct near_idspace_stats {
	uint64_t single;      /* acquired in a process with one thread from other slots' caches */
	uint64_t transfers;   /* handed over */
	uint64_t hits;        /* acquired from the slot's cache */
	uint64_t evictions;   /* released where the cache had another one */
	uint64_t discards;    /* given back by a search for unused caches, or on another node */
	uint64_t allocations; /* acquired from the bitmap */
	uint64_t drains;      /* given back by near_idspace_drain */
	uint64_t migrations;  /* taken from other slots' caches as there were no others */
	uint64_t foreign;     /* acquired although they belong to another node */
	unsigned ids;         /* that there are, */
	unsigned used;        /* that are in use or cached now, */
	unsigned cached;      /* that are cached, */
	unsigned highest;     /* plus 1: the highest that was ever in use */
};

/* Fills *out, of which the caller knows `size` bytes; what the library does not know becomes 0.
 * Returns 0; -EINVAL: size is 0. */
NEAR_API int near_idspace_stats(struct near_idspace *s, struct near_idspace_stats *out,
				size_t size);

NEAR__END_DECLS

#endif
