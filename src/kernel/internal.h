/* SPDX-License-Identifier: MIT */
/* What the core's files share. Nothing here is installed. */
#ifndef NEARCPU_INTERNAL_H
#define NEARCPU_INTERNAL_H

#include <nearcpu/lock.h>
#include <nearcpu/percpu.h>
#include <nearcpu/rseq.h>
#include <nearcpu/seq.h>
#include NEAR__ARCH_OS
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/conf.h"
#include "ground/die.h"

#define NEAR__CACHE_LINE 64
#define NEAR__LIKELY(x) __builtin_expect(!!(x), 1)
#define NEAR__UNLIKELY(x) __builtin_expect(!!(x), 0)

/* near__thread.state. A thread that leaves LIVE other than by vfork, or by clone with CLONE_VFORK,
 * never returns to it. */
enum near__thread_state {
	NEAR__NEW, /* nothing tried yet */
	NEAR__THREAD_LIVE = NEAR__LIVE,
	NEAR__DEAD, /* no registration to be had, or given up at thread exit */
	/* From here on see near__storage_is_own. */
	NEAR__VFORKED, /* a vfork child runs on this thread's memory; known to vfork's assembly */
	NEAR__CLONED,  /* a child of clone and this thread run on its memory at the same time */
};

enum near__hint_source {
	NEAR__HINT_UNKNOWN,
	NEAR__HINT_RDPID,
	NEAR__HINT_LSL,
	NEAR__HINT_RDTSCP,
	NEAR__HINT_GETCPU,
	NEAR__HINT_TID,
};

struct near__arena;
#define NEAR__CLASSES 30

/* Objects of one size, see percpu.c. */
struct near__class {
	struct near__arena *arenas; /* newest first; only grows */
	struct near__arena *current;
	struct near_lock lock; /* held to add an arena */
};

/* Locks of those who pop from fallback lists, by slot: many lists share one. */
#define NEAR__POP_LOCKS 64
struct near__pop_lock {
	struct near_lock lock __attribute__((aligned(NEAR__CACHE_LINE)));
};

/* The process: decided once, by whoever comes first, then constant except where a lock is named. */
struct near__process {
	uint32_t decided;          /* 1: what follows is constant */
	uint32_t watches_forks;    /* a copy of the library has its handlers in place */
	struct near_lock decision; /* held to decide */
	bool usable;               /* sequences and membarrier both work here */
	const char *why;           /* why not usable */
	struct near__conf conf;
	unsigned cpus, nodes;
	unsigned slots;      /* live slots; the number of the slot that is never open */
	uint32_t index_mode; /* near__thread.index_mode of live threads */
	enum near_slot_kind slot_kind;
	const char *slot_why;
	bool has_cid, has_node;
	unsigned feature_size, feature_align, membarrier;
	unsigned exit_key; /* pthread key of threads that this library registered */
	bool has_exit_key, libc_registers;
	uint32_t hint; /* enum near__hint_source */
	uint64_t reserved;
	uint32_t forks;           /* between this process and the one that decided */
	struct near_lock closers; /* held from the first close of a gate to the last open */
	struct near__class classes[NEAR__CLASSES];
	struct near__pop_lock pops[NEAR__POP_LOCKS];
};
extern NEAR_API struct near__process near__process;

/* A thread that is not live has its `area` here or in a copy of its own; its sequences store
 * rseq_cs there, which nobody reads. The ids name slots that are never open. */
extern NEAR_API struct near__area near__dead;

/* Whether the program contains a copy of the library of its own, which it does not export. */
bool near__program_hides_copy(void);

/* Decides what the process does. Returns false if the decision itself came here (by an allocator
 * that uses this library). */
bool near__process_init(void);

/* Makes this thread live if it can be. */
bool near__thread_live(void);

/* False: a child of vfork or clone runs on this thread-local storage. It may be killed at any
 * instruction, and the thread goes on with what is noted there; or both run at the same time. So
 * notes that an end takes back must not begin. */
static inline bool near__storage_is_own(void)
{
	return near__self.state < NEAR__VFORKED;
}

/* Whether the C library does it for its threads. */
bool near__thread_libc_registers(void);

/* The pthread key whose destructor ends the registrations that this library made. */
int near__thread_exit_key(unsigned *key);

/* The slot whose index this thread reads now, near_slots() if not live. Old at once. */
uint32_t near__index_now(void);

/* A number below near__process.cpus, near to the CPU, by the cheapest source; for fallback
 * slots. */
unsigned near__hint(void);

/* The slot behind the one that is never open. */
static inline unsigned near__first_fallback(void)
{
	return near__process.slots + 1;
}

/* Opens the own slot of p. Returns the number of the slot that is open now, or NEAR__NO_SLOT: take
 * the fallback. Who goes on in C code goes on with this slot: near__index_now() may name another
 * one by then, whose memory is still write-protected. */
#define NEAR__NO_SLOT UINT32_MAX
uint32_t near__slot_open_own(const void *p);

/* The same, its answer for a thread that is dead for good inlined. */
static inline uint32_t near__slot_open(const void *p)
{
	return near__self.state <= NEAR__THREAD_LIVE ? near__slot_open_own(p) : NEAR__NO_SLOT;
}

/* near_percpu_fallback, its common case inlined: the C library tells the cpu, the copy is open. */
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

/* near_percpu_alloc for an object that is there for good, in an arena of its own: it begins behind
 * the state word, aligned to a cache line, so that slots share no page for its sake alone. */
int near__percpu_alloc_whole(void **out, size_t size);

/* membarrier(PRIVATE_EXPEDITED_RSEQ): when it returns, every sequence of the process that had begun
 * before the call has committed or been aborted. */
void near__fence(void);

/* The system calls: a negative errno or what they return; errno is left alone. */
long near__syscall_rseq(void *area, uint32_t size, int flags);
long near__membarrier(int command);

#endif
