/* SPDX-License-Identifier: MIT */
/* rseq: where this thread runs, and whether it can run sequences.
 *
 * A thread is live when the kernel watches its sequences: its C library registered it (glibc 2.35
 * and later) or, on its first slow path, this library did. All else takes the portable path, which
 * is always correct. near_rseq_status() reports which of the two it is, and why. If another part of
 * the program takes the registration away, the thread's sequences do not commit from then on, and
 * the thread is not live any more, for good.
 *
 * Cost:      near_cpu, near_cid, near_slot about 0.3 ns where live; else that of the cheapest
 *            source the machine has (see `hint`), up to a system call.
 * Memory:    32 bytes of thread-local storage, 64 with locks or tracepoints; a thread that takes a
 *            slow path gets 704 bytes more, which another thread may have when it has ended.
 * Safety:    any thread, signal handlers, forked children, children of vfork() and of
 *            clone(CLONE_VM | CLONE_VFORK) (which are never live; the library's own vfork() and
 *            clone() see to that, so they must come before the C library's: link the library, do
 *            not dlopen it, in programs that call them; nearcpu(7) has the limits).
 * Order:     none. A number may be outdated by the time the caller uses it.
 * Settings:  NEAR_CONF=rseq:off takes the portable path, slot:cpu or slot:cid chooses the slots,
 *            fence:off forbids interrupts to other CPUs (and so takes the portable path).
 * Fallback:  a thread that is not live has the slot, and as its concurrency id the number, of its
 *            CPU.
 *
 * Concurrent with: everything.
 *
 *     struct near_rseq_status st;
 *     near_rseq_status(&st, sizeof(st));
 *     if (!st.live)
 *             fprintf(stderr, "portable path: %s\n", st.why);
 *
 * Source: the kernel's rseq(2) interface; see ARCHITECTURE.md for the rules it is used by.
 */
#ifndef NEARCPU_RSEQ_H
#define NEARCPU_RSEQ_H

#include <nearcpu/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

NEAR__BEGIN_DECLS

/* The kernel's struct rseq as far as it is used. The library writes rseq_cs and, in slice_ctrl, the
 * request for a slice extension (src/locks/slice.h): a kernel since 7.0.10 kills a process that
 * writes one of the others. */
struct near__area {
	uint32_t cpu_id_start;
	uint32_t cpu_id;
	uint64_t rseq_cs;
	uint32_t flags;
	uint32_t node_id;
	uint32_t mm_cid;
	uint32_t slice_ctrl;
};

/* What a sequence needs to know of its thread; part of the binary interface.
 *
 * `area` is the kernel's area while the thread is live. Otherwise it is memory of our own, whose
 * ids are the number of a slot that is never open, so that one check of the slot's state word
 * covers liveness too. The slot is area->mm_cid if `index_mode` is 0, the common case; area->cpu_id
 * if it is 1; else area->mm_cid + area->node_id * index_mode.
 *
 * When an area is unregistered, the kernel stores -1 to cpu_id, and 0 to the other ids: those of a
 * slot that other threads use. So a sequence fails if cpu_id is negative. A thread unregisters only
 * its own area, by a system call, and a signal handler that does so has aborted the sequence that
 * it interrupted: no sequence is between that load and its commit.
 *
 * Volatile in the declaration, not by a cast where they are read: gcc takes a cast for an access by
 * pointer, which its -fsanitize=null tests by the flags of the addition that makes the address; the
 * linker replaces that addition by one that sets none. */
struct near__thread {
	struct near__area *volatile area;
	volatile uint32_t index_mode; /* 0: cid, 1: cpu, else the number of cids of a node */
	uint32_t state;               /* enum near__thread_state in src/base/self.h */
	/* The rest of the thread's state, see src/base/block.h; zeros that nothing writes to
	 * before the thread has one. Never NULL. */
	struct near__block *block;
	/* Registered by the C library; also in a process that takes the portable path, where it
	 * still has the cpu. */
	const struct near__area *libc_area;
};
extern NEAR__DATA __thread struct near__thread near__self NEAR__STATE(near__self)
	__attribute__((tls_model("initial-exec")));

/* What the inline code of locks and tracepoints needs to know of its thread. Apart, so that static
 * programs without these do not have it. */
struct near__thread_more {
	uint64_t owner; /* see mutex.h */
	/* The first of the locks that this thread holds for reading, see rwlock.h. */
	struct near__hold {
		uintptr_t lock; /* its address; while `depth` is 0, of the last one that was here */
		uint32_t depth;
		uint32_t others; /* of the first hold: locks that found no room */
	} reads;
	uint32_t tid; /* for tracepoints; 0: not known yet */
	/* See src/parking/lot.c. */
	uint16_t lot_depth;
	uint8_t lot_defers, lot_defers_all;
};
extern NEAR__DATA __thread struct near__thread_more near__more NEAR__STATE(near__more)
	__attribute__((tls_model("initial-exec")));

#define NEAR__LIVE 1u

NEAR_API unsigned near__cpu_slow(void);
NEAR_API unsigned near__cid_slow(void);

/* The CPU this thread runs on. */
NEAR_INLINE unsigned near_cpu(void)
{
	if (__builtin_expect(near__self.state == NEAR__LIVE, 1)) {
		uint32_t cpu = *(volatile uint32_t *)&near__self.area->cpu_id;

		if (__builtin_expect((int32_t)cpu >= 0, 1))
			return cpu;
	}
	return near__cpu_slow();
}

/* The concurrency id of this thread: below the number of possible CPUs, and no other running thread
 * of the process has it. Where the kernel has none (before 6.3) or the thread is not live, its
 * CPU. */
NEAR_INLINE unsigned near_cid(void)
{
	/* Where sequences are indexed by cpu, the kernel may have ids or not. */
	if (__builtin_expect(near__self.state == NEAR__LIVE && near__self.index_mode != 1, 1)) {
		const volatile struct near__area *area = near__self.area;
		uint32_t cid = area->mm_cid;

		/* Loaded after it: the id was valid if the thread is still registered. */
		if (__builtin_expect((int32_t)area->cpu_id >= 0, 1))
			return cid;
	}
	return near__cid_slow();
}

/* The NUMA node this thread runs on. */
NEAR_API unsigned near_node(void);

/* The slot of this thread, below near_slots(). Where the thread is not live: a slot by the CPU. */
NEAR_API unsigned near_slot(void);

/* How many slots the process can have: size tables that are indexed by slots with it. Constant. */
NEAR_API unsigned near_slots(void);

/* How many numbers near_cpu() can return: the highest possible CPU plus one. Constant. */
NEAR_API unsigned near_cpus(void);

enum near_slot_kind { NEAR_SLOT_CPU, NEAR_SLOT_CID, NEAR_SLOT_NODE_CID };

/* Later versions add fields at the end. */
struct near_rseq_status {
	bool live;             /* this thread runs sequences */
	bool own_area;         /* this library registered it, not the C library */
	bool has_node;         /* the kernel exports the node, */
	bool has_cid;          /* the concurrency id, */
	bool has_slice;        /* and can extend a time slice (7.0, if built in) */
	const char *why;       /* one sentence: what registered it, or why not live */
	unsigned area_size;    /* bytes registered, 0 if not live */
	unsigned feature_size; /* AT_RSEQ_FEATURE_SIZE, 0 before 6.3 */
	unsigned feature_align;
	unsigned membarrier; /* commands the kernel offers, as membarrier(2) returns them */
	enum near_slot_kind slot_kind;
	const char *slot_why; /* one sentence */
	unsigned slots, cpus, nodes;
	const char *hint; /* the source of the CPU where a thread is not live */
	size_t reserved;  /* bytes of address space reserved by per-CPU memory */
};

/* Fills *out for the calling thread, of which the caller knows `size` bytes; what the library does
 * not know becomes 0. Registers the thread if that was not tried yet.
 * Returns 0; -EINVAL: size is 0. */
NEAR_API int near_rseq_status(struct near_rseq_status *out, size_t size);

NEAR__END_DECLS

#endif
