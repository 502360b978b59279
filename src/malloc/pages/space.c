/* SPDX-License-Identifier: MIT */
/* Segments and extents. */
#include "malloc/pages/space.h"

#include "ground/probe.h"

/* The most segments. With 128 MiB or more each, the tables of a segment are whole pages; the
 * smallest is 4096 bytes of `dirty`. */
#ifndef NEAR__SEGMENTS
#define NEAR__SEGMENTS 1024u
#endif
#define LEAST_SHIFT 15u

static struct near_lock lock; /* of `claimed`; held for a few stores */
static uint32_t claimed;      /* pages from here on belong to no node */

static struct near__extent *only[1];
struct near__extent_map near__extent_map = {only, 32};

static uint64_t heap_end(void)
{
	return near__heap.size >> NEAR__PAGE_SHIFT;
}

/* If a node would get less than two segments, all nodes share one. */
bool near__space_init(void)
{
	struct near__extent_map *m = &near__extent_map;
	uint64_t last = heap_end() - 1;
	uint32_t number;

	if (near__heap.nodes == 1 || last >> LEAST_SHIFT < 2 * near__heap.nodes) {
		near__heap.nodes = 1;
		return true;
	}
	for (m->shift = LEAST_SHIFT; last >> m->shift >= NEAR__SEGMENTS;)
		m->shift++;
	last >>= m->shift;
	number = near__meta_alloc((last + 1) * sizeof(*m->extents)); /* NOLINT: pointers */
	if (number)
		m->extents = near__meta_at(number);
	return number != 0;
}

unsigned near__node_of(uint32_t page)
{
	return near__extent_of(page)->node;
}

/* Requires the lock, that the extent ends at `claimed`, and that `end` is in the heap. */
static void extend(struct near__extent *e, uint64_t end)
{
	struct near__extent_map *m = &near__extent_map;
	uint64_t segment = (uint64_t)1 << m->shift, count;

	end = (end + segment - 1) & ~(segment - 1);
	end = end < heap_end() ? end : heap_end();
	count = end - e->first;
	e->blocks.size = count << NEAR__PAGE_SHIFT;
	e->map.size = count;
	e->owners.size = count * sizeof(uint32_t);
	e->dirty.size = (count + 63) / 64 * sizeof(uint64_t);
	for (uint64_t g = e->end; g < end; g += segment)
		__atomic_store_n(&m->extents[g >> m->shift], e, __ATOMIC_RELEASE);
	claimed = e->end = (uint32_t)end;
}

static struct near__range range(void *base, unsigned node, bool down)
{
	return (struct near__range){base, 0, 0, near__heap.nodes > 1 ? (int)node : -1, down};
}

static void begin(struct near__extent *e, unsigned node)
{
	struct near__heap *h = &near__heap;
	uint32_t first = claimed;

	e->blocks = range(near__page_at(first), node, false);
	e->map = range(h->page_map + first, node, false);
	e->owners = range(h->owner + first, node, false);
	e->dirty = range(h->dirty - first / 64, node, true);
	e->first = e->top = e->end = first;
	e->node = node;
}

bool near__extent_claim(struct near__extent *e, unsigned node, uint64_t count)
{
	bool fits;

	near__heap_lock(&lock);
	fits = count <= heap_end() - claimed;
	if (fits) {
		begin(e, node);
		extend(e, e->first + count);
	}
	near_lock_unlock(&lock);
	return fits;
}

bool near__extent_reach(struct near__extent *e, uint64_t end)
{
	bool fits;

	if (end <= e->end)
		return true;
	near__heap_lock(&lock);
	fits = e->end == claimed && end <= heap_end();
	if (fits)
		extend(e, end);
	near_lock_unlock(&lock);
	return fits;
}

bool near__extent_commit(struct near__extent *e, uint32_t top)
{
	size_t n = top - e->first;

	near__probe(NEAR__PROBE_EXTEND, e, n);
	/* With little address space blocks could take all of it. Free runs need descriptors when
	 * blocks are cut to other sizes: about 64 bytes per page. */
	return near__meta_keep((n << NEAR__PAGE_SHIFT) / 64) && near__range_commit(&e->map, n) &&
	       near__range_commit(&e->owners, n * sizeof(uint32_t)) &&
	       near__range_commit(&e->dirty, (n + 63) / 64 * sizeof(uint64_t)) &&
	       near__range_commit(&e->blocks, n << NEAR__PAGE_SHIFT);
}

void near__space_fork(near__fork_step *step)
{
	step(&lock);
}
