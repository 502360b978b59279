/* SPDX-License-Identifier: MIT */
/* Initialises the heap at the first call of any function, which may be before constructors. */
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/tsan.h"
#include "malloc/api/fast.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/base/tools.h"
#include "malloc/cache/background.h"
#include "malloc/central/central.h"
#include "malloc/diagnostics/hooks.h"
#include "malloc/diagnostics/malloc_stats.h"
#include "malloc/pages/pages.h"

/* In libnearcpu-malloc alone. */
#pragma weak near__replaces_malloc

#ifndef NEAR__LARGEST_HEAP
#define NEAR__LARGEST_HEAP ((size_t)1 << 44)
#endif
#define LARGEST_WITH_TSAN ((size_t)1 << 38) /* it leaves little of the address space */
#define SMALLEST_HEAP ((size_t)1 << 24)
#define PLACES 4 /* that are tried */
/* The numbers of descriptors have 32 bits. */
#ifndef NEAR__LARGEST_META
#define NEAR__LARGEST_META ((size_t)UINT32_MAX * NEAR__META_UNIT & ~(size_t)0xffff)
#endif
_Static_assert(NEAR__LARGEST_HEAP >> NEAR__PAGE_SHIFT <= (size_t)NEAR__MAX_PAGES + 64,
	       "page numbers");
_Static_assert(NEAR__LARGEST_HEAP <= (size_t)1 << NEAR__OFFSET_BITS, "what a link can hold");
_Static_assert(NEAR__LARGEST_META / NEAR__META_UNIT <= UINT32_MAX, "descriptors have numbers");

/* The parts of the heap's address space, in this order. All begin at pages of the system:
 *
 *     dirty, downwards | page map | owner | meta, downwards | a page | blocks | a page
 *
 * The pages stay inaccessible: a write in front of the first block does not reach descriptors. */
struct sizes {
	size_t dirty, map, owners, meta, blocks;
};

static size_t whole_pages(size_t size)
{
	return (size + near__page_size() - 1) & ~(near__page_size() - 1);
}

/* Of the blocks' begin: spans and the system's pages. */
static size_t heap_alignment(void)
{
	return near__page_size() > NEAR__SMALL_SPAN ? near__page_size() : NEAR__SMALL_SPAN;
}

static struct sizes sizes_for(size_t heap)
{
	size_t pages = heap >> NEAR__PAGE_SHIFT;
	struct sizes s = {
		.dirty = whole_pages(pages / 8),
		.map = whole_pages(pages),
		.owners = whole_pages(pages * sizeof(uint32_t)),
		.meta = heap / 8,
		.blocks = heap,
	};

	if (s.meta > NEAR__LARGEST_META)
		s.meta = NEAR__LARGEST_META;
	return s;
}

/* The largest heap that fits. */
static char *find_place(char *find(size_t size), struct sizes *s)
{
	size_t largest = NEAR__TSAN_HERE ? LARGEST_WITH_TSAN : NEAR__LARGEST_HEAP;

	for (size_t heap = largest; heap >= SMALLEST_HEAP; heap /= 2) {
		size_t size;
		char *p;

		*s = sizes_for(heap);
		size = s->dirty + s->map + s->owners + s->meta + s->blocks;
		p = find(size + heap_alignment() + 2 * near__page_size());
		if (p)
			return p;
	}
	return NULL;
}

static bool lay_out(struct near__heap *h, char *p, const struct sizes *s)
{
	size_t most = (size_t)NEAR__MAX_PAGES << NEAR__PAGE_SHIFT;
	uintptr_t blocks;

	h->dirty = (uint64_t *)(p + s->dirty);
	h->page_map = (uint8_t *)h->dirty;
	h->owner = (uint32_t *)(h->page_map + s->map);
	blocks = (uintptr_t)h->owner + s->owners + s->meta + near__page_size();
	h->base = (blocks + heap_alignment() - 1) & ~(heap_alignment() - 1);
	h->size = s->blocks < most ? s->blocks : most;
	h->highest = 0;
	near__meta_begin((char *)h->base - near__page_size(), s->meta);
	return near__pages_init();
}

/* Other code may have mapped what the heap begins with: then it begins at another place. */
static bool heap_place(struct near__heap *h)
{
	bool is_first = &near__replaces_malloc != NULL;
	struct sizes s;
	char *p;

	for (unsigned i = 0; i < PLACES; i++) {
		p = find_place(is_first ? near__os_find_gap : near__os_find_lower_gap, &s);
		if (!p)
			break;
		if (lay_out(h, p, &s))
			return true;
	}
	p = find_place(near__os_reserve, &s);
	return p && lay_out(h, p, &s);
}

/* Slots by concurrency id alone belong to no node. */
static unsigned node_count(void)
{
	const struct near__process *p = &near__process;

	if (p->usable && p->slot_kind == NEAR_SLOT_CID)
		return 1;
	return p->nodes < NEAR__MAX_NODES ? p->nodes : NEAR__MAX_NODES;
}

static bool heap_begin(struct near__heap *h)
{
	near__malloc_conf_read();
	if (near__process.conf.few_calls)
		near__malloc_conf.background = NEAR__BACKGROUND_OFF;
	near__stats_begin(&near__replaces_malloc ? "" : ".alloc");
	near__publish_begin(&near__replaces_malloc ? "" : ".alloc");
	h->nodes = node_count();
	h->key = NEAR__KEY(near__os_random());
	near__lookup_begin();
	near__cache_init();
	near__profile_init();
	near__check_init();
	near__ordered_init();
	near__background_init();
	if (!heap_place(h) || !near__central_init())
		return false;
	near__thread_cache_init();
	/* The fast paths order nothing. A thread that loads a limit other than 0 does so after this
	 * fence on its CPU, and therefore also finds the other words stored. Without sequences a
	 * thread uses only its own lists, which it has after an acquire of `ready`. */
	if (h->caches)
		near__fence();
	near__heap_set_limits();
	return true;
}

/* ThreadSanitizer's malloc serves the program, unless this library comes before it. It then calls
 * malloc before its own functions, in the place of the C library's, work; abort calls some. */
static void refuse_tsan(void)
{
	if (NEAR__TSAN || !NEAR__TSAN_HERE || !&near__replaces_malloc)
		return;
	near__warn("libnearcpu-malloc cannot be the malloc of a program with ThreadSanitizer; "
		   "if it is preloaded, preload libtsan.so before it");
	syscall(SYS_exit_group, 1);
}

/* The fork handlers are registered first, so that a child never finds the lock held by a thread
 * that it does not have. That may allocate, which begins the heap within this call. The lock is
 * taken after the process's decision: the handlers of the core may run before these, and then hold
 * that lock while these wait for this one. */
bool near__heap_begin(void)
{
	struct near__heap *h = &near__heap;

	refuse_tsan();
	if (!near__tool_ready())
		return false;
	near__fork_watch();
	if (!near__process_init())
		return false;
	near_lock_lock(&h->beginning);
	if (!h->ready && heap_begin(h))
		__atomic_store_n(&h->ready, true, __ATOMIC_RELEASE);
	near_lock_unlock(&h->beginning);
	return h->ready;
}

__attribute__((constructor)) static void allow_threads(void)
{
	near__background_allow();
	near__publish_allow();
	if (near__heap_has_begun())
		near__background_start();
}
