/* SPDX-License-Identifier: MIT */
/* gate: how a thread changes the data of a slot that is not its own.
 *
 * A gate is a word next to the data that it guards. Sequences load it and continue only if it is
 * OPEN; they never write it. The order of a change is
 *
 *     near__gates_lock();
 *     near__gate_close(gate) ...   OPEN -> CLOSED by CAS; any number of gates
 *     near__fence();               the first fence
 *     change the data
 *     near__fence();               the second fence
 *     near__gate_open(gate) ...
 *     near__gates_unlock();
 *
 * What can run concurrently, and what stops it (models/gate.pml and gate.cc check it):
 *
 * - A sequence that loaded OPEN and has not committed. The first fence interrupts every CPU that
 *   runs a thread of the process, and the kernel aborts the sequence; a thread that does not run
 *   now is aborted when it resumes. If it committed before, the fence is a full barrier on its CPU
 *   and on ours: the change sees the commit.
 * - A sequence that begins after the CAS and before the fence, and loads OPEN from a stale line:
 *   the same. One that begins after the fence loads CLOSED.
 * - A sequence on a weakly ordered CPU that, after the first fence, loads the data ahead of the
 *   gate (its old content), then the gate when it is open again: it began before the gate was
 *   opened, so the second fence came while it ran, and aborted it. This is why one fence is not
 *   enough.
 * - A fallback is C code, which no fence stops. It never touches what sequences change. Where a
 *   change must stop it too, its own word holds the state and is changed by CAS, or both hold a
 *   lock.
 * - Another closer: near__gates_lock. It is also held by a thread that opens a gate for the first
 *   time if that must not happen during a change (refcount).
 * - A signal handler in the closer: finds its gate closed like any thread, and takes the fallback.
 *   It must not close gates itself.
 * - fork: the prepare handler takes near__gates_lock, so the child finds no gate closed for a
 *   change. The exception is the only thread of a process: if its signal handler forks during a
 *   change, the child completes that change. A child made by a bare clone() finds closed gates
 *   closed for ever: it takes the fallback.
 * - The child of a vfork is never live, so it runs no sequence. As a closer it is a thread like
 *   others: the fence is that of the address space.
 * - A vfork child that is killed while it holds the lock leaves it held, in its parent's memory,
 *   and what it closed, closed. From then on kill, revive, steal, drain and fork wait for ever in
 *   the parent; a pop steals no more, and the rest takes the fallback. Nothing prevents that: the
 *   lock does not name its holder, and nothing records which part of the change was made, nor would
 *   a robust futex. Such a child must call exec or _exit alone; one that adds or pushes takes no
 *   lock.
 * - A killed process takes the memory with it. Shared memory (shared.h) has no gates.
 *
 * Why plain loads and stores are enough within a slot: the next thread on a slot sees all that
 * the thread before it stored, by what the scheduler does between the two (read in
 * kernel/sched/core.c and sched.h of 6.3 to 7.0). A thread gives up its CPU in __schedule(), which
 * begins with a full barrier (rq_lock, smp_mb__after_spinlock), or ends in
 * sched_mm_cid_exit_signals(), which has one too; only then is its concurrency id cleared from the
 * mm's mask. The id is taken again by a test-and-set of that mask, which is fully ordered. Ids that
 * wait for a thread on a CPU are taken from there by a cmpxchg, whose barrier pairs with the one in
 * context_switch(). Two threads on one CPU follow each other under its run queue's lock: that is
 * the case of slots by cpu. */
#ifndef NEARCPU_GATE_H
#define NEARCPU_GATE_H

#include "percpu/percpu.h"

static inline void near__gates_lock(void)
{
	near_lock_lock(&near__percpu.closers);
}

static inline bool near__gates_try_lock(void)
{
	return near_lock_try_lock(&near__percpu.closers);
}

static inline void near__gates_unlock(void)
{
	near_lock_unlock(&near__percpu.closers);
}

/* False: the gate was never opened, or is closed. Acquire: what the opener wrote is seen. */
static inline bool near__gate_close(uint32_t *gate)
{
	uint32_t open = NEAR__OPEN;

	return __atomic_compare_exchange_n(gate, &open, NEAR__CLOSED, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* Release, together with the second fence: a sequence that finds the gate open finds the change. */
static inline void near__gate_open(uint32_t *gate)
{
	__atomic_store_n(gate, NEAR__OPEN, __ATOMIC_RELEASE);
}

/* Opens a gate for the first time. True: it is open now. */
static inline bool near__gate_open_first(uint32_t *gate)
{
	uint32_t was = NEAR__UNOPENED;

	return __atomic_compare_exchange_n(gate, &was, NEAR__OPEN, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE) ||
	       was == NEAR__OPEN;
}

/* The slots of refcount and rwlock: a count behind a gate. */
struct near__gated_count {
	int64_t count;
	uint32_t gate;
	uint32_t pad;
};
_Static_assert(offsetof(struct near__gated_count, gate) == 8, "the sequence in gated.h");

static inline struct near__gated_count *near__gated_count(void *counts, unsigned slot)
{
	return near_percpu_at(counts, slot);
}

/* Opens the gate of the local slot for the first time, if `may_open` returns true. It is called
 * with the lock, so that a thread that closes the gates misses none that is opened concurrently.
 * False: the gate is not open, perhaps because the lock is held: this may be a signal handler that
 * interrupted the holder. Opening a slot that this thread has just left is harmless. */
static inline bool near__gated_open_local(void *counts, bool (*may_open)(const void *owner),
					  const void *owner)
{
	uint32_t slot = near__slot_open(counts), *gate, state;

	if (slot == NEAR__NO_SLOT)
		return false;
	gate = &near__gated_count(counts, slot)->gate;
	/* Acquire: pairs with the release in near__gate_open. */
	state = __atomic_load_n(gate, __ATOMIC_ACQUIRE);
	if (state == NEAR__UNOPENED && near__gates_try_lock()) {
		if (may_open(owner))
			near__gate_open_first(gate);
		state = __atomic_load_n(gate, __ATOMIC_RELAXED);
		near__gates_unlock();
	}
	return state == NEAR__OPEN;
}

/* With the lock: closes all gates. After the next fence no sequence changes a count. */
static inline void near__gated_shut(void *counts)
{
	for (unsigned s = 0; near_percpu_next(counts, &s); s++)
		near__gate_close(&near__gated_count(counts, s)->gate);
}

static inline void near__gated_close(void *counts)
{
	near__gated_shut(counts);
	near__fence();
}

/* With the lock: fences, and opens the gates that near__gated_close has closed. */
static inline void near__gated_reopen(void *counts)
{
	near__fence();
	for (unsigned s = 0; near_percpu_next(counts, &s); s++) {
		uint32_t *gate = &near__gated_count(counts, s)->gate;

		if (__atomic_load_n(gate, __ATOMIC_RELAXED) == NEAR__CLOSED)
			near__gate_open(gate);
	}
}

#endif
