/* SPDX-License-Identifier: MIT */
/* Segments and extents. */
#include "malloc/pages/space.h"

#include "ground/probe.h"
#include "malloc/pages/node.h"

/* The most segments. With 128 MiB or more each, the tables of a segment are whole pages of 4 KiB;
 * the smallest is 4096 bytes of `dirty`. With larger pages of the system they are larger. */
#ifndef NEAR__SEGMENTS
#define NEAR__SEGMENTS 1024u
#endif
#define LEAST_SHIFT 15u

/* At most this many pages of a segment are given up, in front of another mapping or behind its
 * beginning; blocks that are larger pass over the segment, and leave it to others. */
#define GIVEN_UP 4096u
/* Segments that are given up together, at most, in the middle of another mapping. */
#define MOST_PASSED 16u

static struct near_lock lock; /* of the segments; held while new ones are committed */
static uint64_t unclaimed;    /* pages below are claimed, or in holes */
static struct near__extent hole;

struct near__extent_map near__extent_map;
struct near__pages near__pages[NEAR__MAX_NODES];

static uint64_t heap_end(void)
{
	return near__heap.size >> NEAR__PAGE_SHIFT;
}

static uint64_t segment(void)
{
	return (uint64_t)1 << near__extent_map.shift;
}

/* If a node would get less than two segments, all nodes share one. The first entries are in the
 * same page as the descriptors that are allocated next. */
bool near__space_init(void)
{
	struct near__extent_map *m = &near__extent_map;
	uint64_t last = heap_end() - 1;
	uint32_t number;

	m->shift = LEAST_SHIFT + (unsigned)__builtin_ctz(near__system_page());
	unclaimed = 0;
	if (last >> m->shift < 2 * near__heap.nodes)
		near__heap.nodes = 1;
	while (last >> m->shift >= NEAR__SEGMENTS)
		m->shift++;
	last >>= m->shift;
	number = near__meta_alloc((last + 1) * sizeof(*m->extents) + /* NOLINT: pointers */
				  NEAR__CACHE_LINE);
	if (number)
		m->extents = near__meta_at(number);
	return number != 0;
}

unsigned near__node_of(uint32_t page)
{
	return near__extent_of(page)->node;
}

uint32_t near__pages_used(void)
{
	uint32_t used = 0;

	for (unsigned i = 0; i < near__heap.nodes; i++)
		used += __atomic_load_n(&near__pages[i].used, __ATOMIC_RELAXED);
	return used;
}

bool near__pages_contain(uint64_t offset)
{
	uint64_t page = offset >> NEAR__PAGE_SHIFT;
	const struct near__extent *e;

	if (offset >= near__heap.size)
		return false;
	e = near__extent_of((uint32_t)page);
	return e && page < __atomic_load_n(&e->top, __ATOMIC_ACQUIRE);
}

/* ---- segments; the caller holds the lock ---- */

/* The end of the segments that have the pages below `end`. */
static uint64_t segments_end(uint64_t end)
{
	end = (end + segment() - 1) & ~(segment() - 1);
	return end < heap_end() ? end : heap_end();
}

static bool are_unclaimed(uint64_t first, uint64_t end)
{
	if (end > heap_end())
		return false;
	for (uint64_t g = first; g < end; g += segment())
		if (near__extent_of((uint32_t)g))
			return false;
	return true;
}

static void assign(struct near__extent *e, uint64_t first, uint64_t end)
{
	struct near__extent_map *m = &near__extent_map;

	for (uint64_t g = first; g < end; g += segment())
		__atomic_store_n(&m->extents[g >> m->shift], e, __ATOMIC_RELEASE);
	while (unclaimed < heap_end() && near__extent_of((uint32_t)unclaimed))
		unclaimed += segment();
}

/* ---- extents ---- */

static struct near__range range(void *base, unsigned node, bool down)
{
	return (struct near__range){base, 0, 0, 0, near__heap.nodes > 1 ? (int)node : -1, down};
}

static void begin(struct near__extent *e, unsigned node, uint32_t first)
{
	struct near__heap *h = &near__heap;

	e->blocks = range(near__page_at(first), node, false);
	e->map = range(h->page_map + first, node, false);
	e->owners = range(h->owner + first, node, false);
	e->dirty = range(h->dirty - first / 64, node, true);
	e->first = e->top = e->end = first;
	e->node = node;
	e->refused = UINT64_MAX;
}

static size_t dirty_size(uint64_t count)
{
	return (count + 63) / 64 * sizeof(uint64_t);
}

static void set_end(struct near__extent *e, uint64_t end)
{
	uint64_t count = end - e->first;

	e->blocks.size = count << NEAR__PAGE_SHIFT;
	e->map.size = count;
	e->owners.size = count * sizeof(uint32_t);
	e->dirty.size = dirty_size(count);
	e->end = (uint32_t)end;
}

static enum near__commit commit_tables(struct near__extent *e, size_t count)
{
	enum near__commit result = near__range_commit(&e->map, count);

	if (result == NEAR__USABLE)
		result = near__range_commit(&e->owners, count * sizeof(uint32_t));
	if (result == NEAR__USABLE)
		result = near__range_commit(&e->dirty, dirty_size(count));
	return result;
}

/* With little address space blocks could take all of it. Free runs need descriptors when blocks are
 * cut to other sizes: about 64 bytes per page. */
static bool keep_descriptors(uint64_t more)
{
	return near__meta_keep(((near__pages_used() + more) << NEAR__PAGE_SHIFT) / 64);
}

static enum near__commit commit(struct near__extent *e, uint64_t end)
{
	uint64_t count = end - e->first;
	enum near__commit result;

	near__probe(NEAR__PROBE_EXTEND, e, count);
	if (!keep_descriptors(end > e->top ? end - e->top : 0))
		return NEAR__NO_MEMORY;
	result = commit_tables(e, count);
	if (result == NEAR__USABLE)
		result = near__range_commit(&e->blocks, count << NEAR__PAGE_SHIFT);
	return result;
}

/* Requires that the segments up to `end` are unclaimed. If it fails, nothing changes. Of a new
 * extent the blocks are tried first: another mapping is most likely to be there. */
static enum near__commit extend(struct near__extent *e, uint64_t end)
{
	struct near__extent was = *e;
	enum near__commit result = NEAR__USABLE;

	set_end(e, segments_end(end));
	if (was.end == was.first)
		result = near__range_commit(&e->blocks, (end - e->first) << NEAR__PAGE_SHIFT);
	if (result == NEAR__USABLE)
		result = commit(e, end);
	if (result == NEAR__USABLE) {
		assign(e, was.end, e->end);
		return result;
	}
	near__range_cut(&e->blocks, was.blocks.committed);
	near__range_cut(&e->map, was.map.committed);
	near__range_cut(&e->owners, was.owners.committed);
	near__range_cut(&e->dirty, was.dirty.committed);
	set_end(e, was.end);
	return result;
}

/* Something is in the way of `count` pages at the beginning of the segment at `first`. Returns
 * where to try next. In the middle of a large mapping, *passed doubles. */
static uint64_t pass(uint64_t first, uint64_t count, unsigned *passed)
{
	uint64_t next = first + segment();

	if (count > GIVEN_UP)
		return next;
	for (unsigned i = 1; i < *passed && are_unclaimed(next, next + 1); i++)
		next += segment();
	*passed = *passed < MOST_PASSED ? *passed * 2 : *passed;
	assign(&hole, first, next < heap_end() ? next : heap_end());
	return next;
}

static enum near__commit claim(struct near__extent *e, unsigned node, uint32_t count,
			       uint32_t align)
{
	unsigned passed = 1;
	enum near__commit result;

	for (uint64_t first = unclaimed, end; first < heap_end();) {
		end = near__align_page((uint32_t)first, align) + count;
		if (!are_unclaimed(first, segments_end(end)) || end > heap_end()) {
			first += segment();
			continue;
		}
		begin(e, node, (uint32_t)first);
		result = extend(e, end);
		if (result != NEAR__OCCUPIED)
			return result;
		first = pass(first, end - first, &passed);
	}
	return NEAR__OCCUPIED;
}

enum near__commit near__extent_claim(struct near__extent *e, unsigned node, uint32_t count,
				     uint32_t align)
{
	enum near__commit result;

	near__heap_lock(&lock);
	result = claim(e, node, count, align);
	near_lock_unlock(&lock);
	return result;
}

enum near__commit near__extent_commit(struct near__extent *e, uint64_t end)
{
	enum near__commit result = NEAR__OCCUPIED;

	if (end >= e->refused)
		return result;
	if (end <= e->end) {
		result = commit(e, end);
	} else {
		near__heap_lock(&lock);
		if (are_unclaimed(e->end, segments_end(end)) && end <= heap_end())
			result = extend(e, end);
		near_lock_unlock(&lock);
	}
	if (result == NEAR__OCCUPIED)
		e->refused = end;
	return result;
}

/* Tables first: the blocks that they describe can be used. */
uint32_t near__extent_fill(struct near__extent *e, uint64_t others)
{
	uint64_t end = e->refused < e->end ? e->refused : e->end, n = end - e->first;

	if (end <= e->top || end - e->top > GIVEN_UP || !keep_descriptors(end - e->top + others))
		return e->top;
	near__range_fill(&e->map, n);
	near__range_fill(&e->owners, n * sizeof(uint32_t));
	near__range_fill(&e->dirty, dirty_size(n));
	n = n < e->map.committed ? n : e->map.committed;
	n = n < e->owners.committed / 4 ? n : e->owners.committed / 4;
	n = n < e->dirty.committed * 8 ? n : e->dirty.committed * 8;
	near__range_fill(&e->blocks, n << NEAR__PAGE_SHIFT);
	n = n < e->blocks.committed >> NEAR__PAGE_SHIFT ? n
							: e->blocks.committed >> NEAR__PAGE_SHIFT;
	e->refused = e->first + n + 1;
	return e->first + (uint32_t)n;
}

void near__space_fork(near__fork_step *step)
{
	step(&lock);
}
