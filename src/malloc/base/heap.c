/* SPDX-License-Identifier: MIT */
/* The heap's shared state, and the limits that the fast paths read; the wait for a lock. */
#include "malloc/base/heap.h"

#include "base/spin.h"
#include "kernel/hint.h"
#include "malloc/base/lookup.h"

struct near__heap near__heap;

unsigned near__node_now(void)
{
	unsigned cpu, node;

	if (NEAR__LIKELY(near__heap.nodes == 1))
		return 0;
	near__where(&cpu, &node);
	return node % near__heap.nodes;
}

/* A process whose slots are indexed by the cid has one node, and one lock over this; with several
 * nodes the order of the ends is unknown, and the limit is the whole heap. Below it there are gaps,
 * also with one node, where other code has mapped pages: the fast paths load the tag of a block
 * alone, and no block is in a gap.
 *
 * The fast paths load these words plainly while they change here: a data race in C, which does no
 * harm. Each word is aligned, and a fast path compares it once, with one of the values that were
 * stored. An old end is too low, and sends the call to the slow path. With a new end the thread
 * does not rely on the stores before it: it loads only the tag of a block that it has, and so has
 * synchronised with the thread that allocated the block. A limit from before a hook was set leaves
 * the call without the hook, as if it had come earlier. api/malloc_init.c has the first end. */
void near__heap_set_limits(void)
{
	struct near__heap *h = &near__heap;
	bool by_cid = near__process.index_mode == 0;
	bool sequences = h->caches && (h->hooks == NEAR__UNHOOKED || h->hooks == NEAR__PROFILED);
	bool lists = !h->caches && h->hooks == NEAR__UNHOOKED;
	bool known = lists || sequences;
	size_t end = __atomic_load_n(&h->highest, __ATOMIC_RELAXED); /* an old one is too low */
	size_t all = h->nodes > 1 ? h->size : end;
	/* The lock checker sees each free, by a probe of the slow path. */
	size_t freed = near__process.conf.lock_check ? 0 : all;
	bool fast = sequences && h->hooks == NEAR__UNHOOKED;
	size_t cid_size = by_cid && sequences ? freed : 0;
	size_t cid_limit = by_cid && fast ? NEAR__TABLE_MAX + 1 : 0;

	__atomic_store_n(&h->list_limit, sequences ? all : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->slot_limit, fast ? NEAR__SMALL_MAX + 1 : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->cid_size, cid_size, __ATOMIC_RELAXED);
	__atomic_store_n(&h->slot_size, !by_cid && sequences ? freed : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->known_size, known ? freed : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->local_size, lists ? freed : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->local_limit, lists ? NEAR__SMALL_MAX + 1 : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->cid_limit, cid_limit, __ATOMIC_RELAXED);
	/* Relaxed: a thread that misses it stores 0, and the next operator calls again. */
	if (!__atomic_load_n(&h->operators, __ATOMIC_RELAXED))
		cid_size = cid_limit = 0;
	__atomic_store_n(&h->new_size, cid_size, __ATOMIC_RELAXED);
	__atomic_store_n(&h->new_limit, cid_limit, __ATOMIC_RELAXED);
}

void near__heap_open_operators(void)
{
	__atomic_store_n(&near__heap.operators, true, __ATOMIC_RELAXED);
	near__heap_set_limits();
}

void near__heap_publish(size_t end, size_t used)
{
	/* Relaxed: with one node the caller's lock orders it, with several nothing uses it. */
	if (end > __atomic_load_n(&near__heap.highest, __ATOMIC_RELAXED))
		__atomic_store_n(&near__heap.highest, end, __ATOMIC_RELAXED);
	if (near__heap.ready)
		near__heap_set_limits();
	near__lookup_grown(used);
}

#define LOCK_TRIES 12

void near__heap_lock_slow(struct near_lock *lock)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		near__pause_for(NEAR__SPIN_NS);
		if (near_lock_try_lock(lock))
			return;
	}
	near_lock_lock(lock);
}
