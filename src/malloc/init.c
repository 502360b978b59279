/* SPDX-License-Identifier: MIT */
/* The heap's beginning: on the first call of anything, which may come before constructors. */
#include "conf.h"
#include "front.h"
#include "hooks.h"

struct near__heap near__heap;
static struct near_lock lock;

#define LARGEST_HEAP ((size_t)1 << 38)
#define SMALLEST_HEAP ((size_t)1 << 24)

static bool reserve(size_t size)
{
	struct near__heap *h = &near__heap;
	size_t granules = size >> NEAR__GRANULE_SHIFT;

	return near__range_reserve(&h->blocks, size + NEAR__GRANULE) &&
	       near__range_reserve(&h->kinds, granules) && near__range_show(&h->kinds) &&
	       near__range_reserve(&h->owners, granules * 4) &&
	       near__range_reserve(&h->dirty, granules / 8) &&
	       near__range_reserve(&h->meta, size / 64);
}

static void release(void)
{
	struct near__heap *h = &near__heap;
	struct near__range *ranges[] = {&h->blocks, &h->kinds, &h->owners, &h->dirty, &h->meta};

	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		near__range_release(ranges[i]);
}

/* Less where address space is limited. */
static bool reserve_most(void)
{
	for (size_t size = LARGEST_HEAP; size >= SMALLEST_HEAP; size /= 2) {
		if (reserve(size))
			return true;
		release();
	}
	return false;
}

static void place_blocks(struct near__heap *h)
{
	h->base = ((uintptr_t)h->blocks.base + NEAR__GRANULE - 1) & ~(NEAR__GRANULE - 1);
	h->blocks.base = (char *)h->base;
	h->blocks.size -= NEAR__GRANULE;
	h->kind = (uint8_t *)h->kinds.base;
	h->owner = (uint32_t *)h->owners.base;
}

/* Granule 0 is nobody's: what lists without a block point to. */
static bool keep_first(struct near__heap *h)
{
	bool zero;

	if (near__pages_alloc(1, 1, &zero) != 0)
		return false;
	h->kind[0] = NEAR__REST;
	return true;
}

static void set_limits(struct near__heap *h)
{
	if (h->front && h->hooks == NEAR__UNHOOKED)
		h->slot_limit = NEAR__TABLE_MAX + 1;
	if (h->front && h->hooks != NEAR__CHECKED)
		h->slot_size = h->blocks.size;
	if (near__process.general == 0) {
		h->cid_limit = h->slot_limit;
		h->cid_size = h->slot_size;
	}
}

static bool begin(struct near__heap *h)
{
	near__malloc_conf_read();
	if (!near__process_init() || !reserve_most())
		return false;
	place_blocks(h);
	if (!keep_first(h)) {
		release();
		return false;
	}
	near__front_init();
	near__profile_init();
	near__check_init();
	set_limits(h);
	return true;
}

bool near__heap_begin(void)
{
	struct near__heap *h = &near__heap;
	bool first = false;

	near_lock_lock(&lock);
	if (!h->ready && begin(h)) {
		first = true;
		__atomic_store_n(&h->ready, true, __ATOMIC_RELEASE);
	}
	near_lock_unlock(&lock);
	/* These may allocate. */
	if (first) {
		near__fork_watch();
		near__local_init();
	}
	return h->ready;
}
