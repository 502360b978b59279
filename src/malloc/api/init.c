/* SPDX-License-Identifier: MIT */
/* The heap's beginning: on the first call of anything, which may come before constructors. */
#include "kernel/hint.h"
#include "malloc/base/conf.h"
#include "malloc/cache/cache.h"
#include "malloc/observe/hooks.h"
#include "malloc/base/lookup.h"
#include "malloc/base/tools.h"

struct near__heap near__heap;
static struct near_lock lock;

/* ThreadSanitizer leaves little of the address space. */
#ifndef NEAR__LARGEST_HEAP
#define NEAR__LARGEST_HEAP ((size_t)1 << (NEAR__TSAN ? 38 : 44))
#endif
#define SMALLEST_HEAP ((size_t)1 << 24)
/* What numbers of descriptors can name. */
#ifndef NEAR__LARGEST_META
#define NEAR__LARGEST_META ((size_t)UINT32_MAX * NEAR__META_UNIT & ~(NEAR__OS_PAGE - 1))
#endif
_Static_assert(NEAR__LARGEST_HEAP >> NEAR__GRANULE_SHIFT <= (size_t)NEAR__MAX_GRANULES + 64,
	       "granules have numbers");
_Static_assert(NEAR__LARGEST_HEAP <= (size_t)1 << NEAR__OFFSET_BITS, "what a link can hold");
_Static_assert(NEAR__LARGEST_META / NEAR__META_UNIT <= UINT32_MAX, "descriptors have numbers");

/* Of the address space that a heap of some size needs, in this order. All sizes are whole pages, as
 * the heap's is a power of two:
 *
 *     dirty, downwards | kind | owner | meta, downwards | a page | blocks | a page
 *
 * The pages stay inaccessible: a write in front of the first block does not reach descriptors. */
struct sizes {
	size_t dirty, kinds, owners, meta, blocks;
};

static struct sizes sizes_for(size_t heap)
{
	size_t granules = heap >> NEAR__GRANULE_SHIFT;
	struct sizes s = {
		.dirty = (granules / 8 + NEAR__OS_PAGE - 1) & ~(NEAR__OS_PAGE - 1),
		.kinds = granules,
		.owners = granules * sizeof(uint32_t),
		.meta = heap / 8,
		.blocks = heap,
	};

	if (s.meta > NEAR__LARGEST_META)
		s.meta = NEAR__LARGEST_META;
	return s;
}

/* The largest heap that there is room for. */
static char *find_place(char *find(size_t size), struct sizes *s)
{
	for (size_t heap = NEAR__LARGEST_HEAP; heap >= SMALLEST_HEAP; heap /= 2) {
		size_t size;
		char *p;

		*s = sizes_for(heap);
		size = s->dirty + s->kinds + s->owners + s->meta + s->blocks;
		p = find(size + NEAR__SMALL_SPAN + 2 * NEAR__OS_PAGE);
		if (p)
			return p;
	}
	return NULL;
}

static bool place(struct near__heap *h)
{
	struct sizes s;
	char *p = find_place(near__os_find_gap, &s);
	size_t most = (size_t)NEAR__MAX_GRANULES << NEAR__GRANULE_SHIFT;
	uintptr_t blocks;

	if (!p)
		p = find_place(near__os_reserve, &s);
	if (!p)
		return false;
	h->dirty = (uint64_t *)(p + s.dirty);
	h->kind = (uint8_t *)h->dirty;
	h->owner = (uint32_t *)(h->kind + s.kinds);
	blocks = (uintptr_t)h->owner + s.owners + s.meta + NEAR__OS_PAGE;
	h->base = (blocks + NEAR__SMALL_SPAN - 1) & ~(NEAR__SMALL_SPAN - 1);
	h->size = s.blocks < most ? s.blocks : most;
	h->meta = (struct near__range){(char *)h->base - NEAR__OS_PAGE, s.meta, 0, -1, true};
	return near__pages_init();
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
	h->key = NEAR__KEY(near__os_random());
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
