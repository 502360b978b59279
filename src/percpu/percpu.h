/* SPDX-License-Identifier: MIT */
/* percpu: the state of per-CPU memory and of the structures on it, and what they offer to other
 * folders: slots and fallback slots. */
#ifndef NEARCPU_PERCPU_PERCPU_H
#define NEARCPU_PERCPU_PERCPU_H

#include <nearcpu/percpu.h>

#include "kernel/kernel.h"

struct near__arena;
#define NEAR__CLASSES 30

/* Objects of one size, see percpu.c. */
struct near__class {
	struct near__arena *arenas; /* newest first; only grows */
	struct near__arena *current;
	struct near_lock lock; /* held to add an arena */
};

/* Locks of pops from fallback lists, by slot: many lists share one. */
#define NEAR__POP_LOCKS 64
struct near__pop_lock {
	struct near_lock lock __attribute__((aligned(NEAR__CACHE_LINE)));
};

#define NEAR__POOL_LOCKS 16 /* of pools and id spaces, by address: each has one */

/* One for each process. A fork holds all its locks, see percpu_fork.c. */
struct near__percpu {
	uint32_t watches_forks;   /* a copy of the library has its handlers in place */
	struct near_lock closers; /* held from the first close of a gate to the last open */
	uint64_t queues;          /* that were made, near_queue.number */
	struct near__class classes[NEAR__CLASSES];
	struct near__pop_lock pops[NEAR__POP_LOCKS];
	struct near__pop_lock pools[NEAR__POOL_LOCKS];
};
extern NEAR__DATA struct near__percpu near__percpu NEAR__STATE(near__percpu);

/* The lock of pops from this copy of percpu object p. */
static inline struct near_lock *near__pop_lock_of(const void *p, const void *copy)
{
	size_t slot = ((uintptr_t)copy - (uintptr_t)p) >> NEAR_STRIDE_SHIFT;

	return &near__percpu.pops[slot % NEAR__POP_LOCKS].lock;
}

/* The lock of a pool or id space at that page. An odd multiplier spreads the pages. */
static inline struct near_lock *near__percpu_lock(const void *p)
{
	uint64_t hash = (uintptr_t)p / 4096 * UINT64_C(0x9e3779b97f4a7c15);

	return &near__percpu.pools[hash >> 60].lock;
}
_Static_assert(NEAR__POOL_LOCKS == 16, "the highest 4 bits");

/* The slot after the one that is never open. */
static inline unsigned near__first_fallback(void)
{
	return near__process.slots + 1;
}

/* Opens the local slot of p. Returns the number of the slot that is open now, or NEAR__NO_SLOT:
 * take the fallback. C code must use this slot from then on: near__index_now() may return another
 * one, whose memory is still write-protected. */
#define NEAR__NO_SLOT UINT32_MAX
uint32_t near__slot_open_own(const void *p);

/* Opens this slot of p ahead, by any thread: a thread that finds it open later does what it would
 * have done after opening it. False: no memory. */
bool near__slot_open_at(const void *p, uint32_t slot);

/* The same, its answer for a thread that is dead for good inlined. */
static inline uint32_t near__slot_open(const void *p)
{
	return near__self.state <= NEAR__THREAD_LIVE ? near__slot_open_own(p) : NEAR__NO_SLOT;
}

/* near_percpu_fallback, its common case inlined: the C library's area has the cpu, the copy is
 * open. */
static inline void *near__fallback(void *p)
{
	const struct near__area *area = near__self.libc_area;
	uintptr_t base = (uintptr_t)p & ~NEAR__ARENA_MASK, offset;
	uint32_t cpu = area ? *(volatile const uint32_t *)&area->cpu_id : UINT32_MAX;

	if (NEAR__UNLIKELY(cpu >= near__process.cpus))
		return near_percpu_fallback(p);
	offset = (uintptr_t)(near__first_fallback() + cpu) << NEAR_STRIDE_SHIFT;
	if (__atomic_load_n((uint32_t *)(base + offset), __ATOMIC_ACQUIRE) != NEAR__OPEN_FALLBACK)
		return near_percpu_fallback(p);
	return (char *)p + offset;
}

/* near_percpu_alloc for an object that is never freed, in an arena of its own: it begins after the
 * state word, aligned to a cache line, so that it and the state word share a page. */
int near__percpu_alloc_whole(void **out, size_t size);

#endif
