/* SPDX-License-Identifier: MIT */
/* The heap's beginning: on the first call of anything, which may come before constructors. */
#include "../hint.h"
#include "conf.h"
#include "front.h"
#include "hooks.h"
#include "lookup.h"
#include "tools.h"

struct near__heap near__heap;
static struct near_lock lock;

#define LARGEST_HEAP ((size_t)1 << 38)
#define SMALLEST_HEAP ((size_t)1 << 24)

static size_t whole_pages(size_t size)
{
	return (size + NEAR__OS_PAGE - 1) & ~(size_t)(NEAR__OS_PAGE - 1);
}

/* Of the address space that a heap of some size needs, in this order. */
static size_t owners_size(size_t heap)
{
	return whole_pages((heap >> NEAR__GRANULE_SHIFT) * sizeof(uint32_t));
}

static size_t kinds_size(size_t heap)
{
	return whole_pages(heap >> NEAR__GRANULE_SHIFT);
}

static size_t dirty_size(size_t heap)
{
	return whole_pages((heap >> NEAR__GRANULE_SHIFT) / 8);
}

/* Half of it is for blocks, half for all that is said about them. */
static bool place(struct near__heap *h)
{
	size_t space = 2 * LARGEST_HEAP, size;
	char *base = near__os_find_space(&space, 2 * SMALLEST_HEAP), *owners, *kinds, *dirty, *meta;

	if (!base)
		return false;
	size = space / 2;
	owners = base + size;
	kinds = owners + owners_size(size);
	dirty = kinds + kinds_size(size);
	meta = dirty + dirty_size(size);
	h->base = ((uintptr_t)base + NEAR__SMALL_SPAN - 1) & ~(NEAR__SMALL_SPAN - 1);
	h->size = size - NEAR__SMALL_SPAN;
	h->owner = (uint32_t *)owners;
	h->kind = (uint8_t *)kinds;
	h->dirty = (uint64_t *)dirty;
	h->meta = (struct near__range){meta, size / 4, 0, -1};
	return near__pages_init((char *)h->base, kinds, owners, dirty);
}

/* Slots by concurrency id alone belong to no node. */
static unsigned node_count(void)
{
	const struct near__process *p = &near__process;

	if (p->usable && p->slot_kind == NEAR_SLOT_CID)
		return 1;
	return p->nodes < NEAR__MAX_NODES ? p->nodes : NEAR__MAX_NODES;
}

unsigned near__node_now(void)
{
	unsigned cpu, node;

	if (NEAR__LIKELY(near__heap.nodes == 1))
		return 0;
	near__where(&cpu, &node);
	return node % near__heap.nodes;
}

/* The fast paths load these words plainly, each by itself: an old one sends a call the slow way. A
 * process that goes by the cid has one node, and one lock over this; with several nodes the end is
 * no use, as there are gaps below it. */
static void set_limits(struct near__heap *h, size_t end)
{
	bool by_cid = near__process.general == 0;
	bool sequences = h->front && h->hooks != NEAR__CHECKED && h->hooks != NEAR__PERTURBED;
	bool lists = !h->front && h->hooks == NEAR__UNHOOKED;
	size_t all = h->nodes > 1 ? h->size : end, size = sequences ? all : 0;
	bool fast = sequences && h->hooks == NEAR__UNHOOKED;

	__atomic_store_n(&h->slot_size, size, __ATOMIC_RELAXED);
	__atomic_store_n(&h->slot_limit, fast ? NEAR__SMALL_MAX + 1 : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->cid_size, by_cid ? size : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->local_size, lists ? all : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->local_limit, lists ? NEAR__SMALL_MAX + 1 : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&h->cid_limit, by_cid && fast ? NEAR__TABLE_MAX + 1 : 0, __ATOMIC_RELAXED);
}

void near__heap_publish(size_t end)
{
	if (near__heap.ready)
		set_limits(&near__heap, end);
	near__lookup_grown((size_t)near__pages_used() << NEAR__GRANULE_SHIFT);
}

static bool begin(struct near__heap *h)
{
	near__malloc_conf_read();
	if (!near__process_init())
		return false;
	h->nodes = node_count();
	near__lookup_begin();
	near__front_init();
	near__profile_init();
	near__check_init();
	if (!place(h) || !near__central_init())
		return false;
	/* Fast paths order nothing. Who finds a limit loads the words beside it after this fence on
	 * its CPU, so finds them stored, too; before it, the limits were 0. Without sequences a
	 * thread uses no more than its own lists, which it has once it saw `ready`. */
	if (h->front)
		near__fence();
	set_limits(h, (size_t)near__pages_used() << NEAR__GRANULE_SHIFT);
	return true;
}

bool near__heap_begin(void)
{
	struct near__heap *h = &near__heap;
	bool first = false;

	if (!near__tool_ready())
		return false;
	near_lock_lock(&lock);
	if (!h->ready && begin(h)) {
		first = true;
		__atomic_store_n(&h->ready, true, __ATOMIC_RELEASE);
	}
	near_lock_unlock(&lock);
	/* These may allocate; what musl's pthread_atfork takes must find the thread's own lists. */
	if (first) {
		near__local_init();
		near__fork_watch();
	}
	return h->ready;
}
