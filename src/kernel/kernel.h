/* SPDX-License-Identifier: MIT */
/* kernel: what the files of this layer share, and what they offer to higher layers: the process,
 * liveness, fences. */
#ifndef NEARCPU_KERNEL_KERNEL_H
#define NEARCPU_KERNEL_KERNEL_H

#include <nearcpu/lock.h>
#include <nearcpu/rseq.h>
#include <nearcpu/seq.h>
#include NEAR__ARCH_OS
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/conf.h"
#include "base/die.h"
#include "base/self.h"

/* A sequence is tried as often as its thread may be aborted by chance, each time when its slot is
 * `ready`; then follows the fallback. A debugger that steps aborts each try. */
#define NEAR__TRY_WHILE(ready)                                                                     \
	for (int near__try = 0; near__try < NEAR_SEQ_TRIES && (ready); near__try++)

/* Whether one of these tries of a sequence, an expression, has committed. */
#define NEAR__TRY(ready, sequence)                                                                 \
	({                                                                                         \
		bool near__done = false;                                                           \
                                                                                                   \
		NEAR__TRY_WHILE(!near__done && (ready))                                            \
			near__done = (sequence);                                                   \
		near__done;                                                                        \
	})

enum near__hint_source {
	NEAR__HINT_UNKNOWN,
	NEAR__HINT_RDPID,
	NEAR__HINT_LSL,
	NEAR__HINT_RDTSCP,
	NEAR__HINT_GETCPU,
	NEAR__HINT_TID,
};

/* The process: decided once, by the first thread that needs it, then constant except for the fields
 * marked. */
struct near__process {
	uint32_t decided;       /* 1: what follows is constant */
	uint32_t watches_forks; /* a copy of the library has its handlers in place */
	bool usable;            /* sequences and membarrier both work here */
	struct near__conf conf;
	unsigned cpus, nodes;
	unsigned slots;      /* live slots; the number of the slot that is never open */
	uint32_t index_mode; /* near__thread.index_mode of live threads */
	enum near_slot_kind slot_kind;
	const char *slot_why;
	const char *why;           /* why not usable */
	struct near_lock decision; /* held to decide */
	bool has_cid, has_node;
	unsigned feature_size, feature_align, membarrier;
	bool libc_registers;
	uint32_t hint;     /* enum near__hint_source */
	uint64_t reserved; /* bytes of address space; changes */
	uint32_t forks;    /* between this process and the one that decided; changes */
	/* Atomic. Set by the locks before a thread has an id. Called when a child of clone and this
	 * thread begin to share its storage. */
	void (*storage_is_shared)(void);
	uintptr_t decider; /* the address of near__self of the thread that decides, or 0 */
};
/* What slow paths load is in the first 64 bytes. */
_Static_assert(offsetof(struct near__process, slot_why) <= 64, "near__process");
extern NEAR__DATA struct near__process near__process NEAR__STATE(near__process);

/* In front of the library's vfork, whose address is therefore 8 more than a multiple of 16: a mark,
 * and the version that shares state. See other_copies.c. */
#define NEAR__VFORK_WORD 0x7261656e /* "near" */
#define NEAR__VFORK_MARK                                                                           \
	".balign 16\n"                                                                             \
	".4byte " NEAR__TEXT(NEAR__VFORK_WORD) ", " NEAR__TEXT(NEAR__STATE_NUMBER) "\n"

/* Why another copy of the library is the one whose threads run sequences here, or NULL: one of the
 * program that it does not export, or one of another version. */
const char *near__why_other_copy(void);

/* Whether no other version of the library has called this before. */
bool near__is_first_version(void);

/* Decides what the process does. Returns false if the decision itself called this (by an
 * allocator that uses this library). */
bool near__process_init(void);

/* Makes this thread live if it can be. False for good if its registration was taken away. */
bool near__thread_live_slow(void);

static inline bool near__thread_live(void)
{
	const volatile struct near__area *area = near__self.area;

	return (NEAR__LIKELY(near__self.state == NEAR__THREAD_LIVE) &&
		NEAR__LIKELY((int32_t)area->cpu_id >= 0)) ||
	       near__thread_live_slow();
}

/* The slot whose index this thread reads now, as NEAR_INDEX of the architecture computes it;
 * near_slots() if not live. It may be outdated before the caller uses it. */
static inline uint32_t near__index_now(void)
{
	const volatile struct near__area *area = near__self.area;
	uint32_t index_mode = near__self.index_mode, cpu = area->cpu_id;

	if (NEAR__UNLIKELY((int32_t)cpu < 0))
		return near__process.slots;
	if (index_mode == 1)
		return cpu;
	return area->mm_cid + area->node_id * index_mode;
}

/* A number below near__process.cpus, near to the CPU, by the cheapest source; for fallback
 * slots. */
unsigned near__hint(void);

/* membarrier(PRIVATE_EXPEDITED_RSEQ): when it returns, every sequence of the process that had begun
 * before the call has committed or been aborted. */
void near__fence(void);

/* The system call: a negative errno or what it returns; errno is left alone. */
long near__syscall_rseq(void *area, uint32_t size, int flags);

#endif
