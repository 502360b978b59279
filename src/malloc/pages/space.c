/* SPDX-License-Identifier: MIT */
/* Segments and extents. */
#include "base/bits.h"

#include "base/probe.h"
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

static uint64_t heap_end(void)
{
	return near__heap.size >> NEAR__PAGE_SHIFT;
}

static uint64_t segment_size(void)
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

struct near__place near__place_at(uint64_t offset)
{
	struct near__place at = {offset, NEAR__OUTSIDE, 0};
	unsigned class;

	if (!near__pages_contain(offset))
		return at;
	at.tag = near__heap.page_map[offset >> NEAR__PAGE_SHIFT];
	if (near__begins(at.tag, offset, &class))
		at.class = (uint16_t) class;
	return at;
}

struct near__place near__place_of(const void *p)
{
	return near__place_at(near__offset_of(p));
}

/* ---- segments; the caller holds the lock ---- */

/* The end of the segments that have the pages below `end`. */
static uint64_t segments_end(uint64_t end)
{
	end = (end + segment_size() - 1) & ~(segment_size() - 1);
	return end < heap_end() ? end : heap_end();
}

static bool are_unclaimed(uint64_t first, uint64_t end)
{
	if (end > heap_end())
		return false;
	for (uint64_t g = first; g < end; g += segment_size())
		if (near__extent_of((uint32_t)g))
			return false;
	return true;
}

static void extent_assign(struct near__extent *e, uint64_t first, uint64_t end)
{
	struct near__extent_map *m = &near__extent_map;

	for (uint64_t g = first; g < end; g += segment_size())
		__atomic_store_n(&m->extents[g >> m->shift], e, __ATOMIC_RELEASE);
	while (unclaimed < heap_end() && near__extent_of((uint32_t)unclaimed))
		unclaimed += segment_size();
}

/* ---- extents ---- */

static struct near__range extent_range(void *base, unsigned node, bool down)
{
	return (struct near__range){base, 0, 0, 0, near__heap.nodes > 1 ? (int)node : -1, down};
}

static void extent_begin(struct near__extent *e, unsigned node, uint32_t first)
{
	struct near__heap *h = &near__heap;

	e->blocks = extent_range(near__page_at(first), node, false);
	e->map = extent_range(h->page_map + first, node, false);
	e->owners = extent_range(h->owner + first, node, false);
	e->dirty = extent_range(h->dirty - first / 64, node, true);
	e->first = e->top = e->end = first;
	e->node = node;
	e->refused = UINT64_MAX;
}

static size_t dirty_size(uint64_t count)
{
	return near__bit_words(count) * sizeof(uint64_t);
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

static enum near__commit commit_all(struct near__extent *e, uint64_t end)
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
static enum near__commit extent_extend(struct near__extent *e, uint64_t end)
{
	struct near__extent was = *e;
	enum near__commit result = NEAR__USABLE;

	set_end(e, segments_end(end));
	if (was.end == was.first)
		result = near__range_commit(&e->blocks, (end - e->first) << NEAR__PAGE_SHIFT);
	if (result == NEAR__USABLE)
		result = commit_all(e, end);
	if (result == NEAR__USABLE) {
		extent_assign(e, was.end, e->end);
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
static uint64_t segments_pass(uint64_t first, uint64_t count, unsigned *passed)
{
	uint64_t next = first + segment_size();

	if (count > GIVEN_UP)
		return next;
	for (unsigned i = 1; i < *passed && are_unclaimed(next, next + 1); i++)
		next += segment_size();
	*passed = *passed < MOST_PASSED ? *passed * 2 : *passed;
	extent_assign(&hole, first, next < heap_end() ? next : heap_end());
	return next;
}

static enum near__commit claim_locked(struct near__extent *e, unsigned node, uint32_t count,
				      uint32_t align)
{
	unsigned passed = 1;
	enum near__commit result;

	for (uint64_t first = unclaimed, end; first < heap_end();) {
		end = near__align_page((uint32_t)first, align) + count;
		if (!are_unclaimed(first, segments_end(end)) || end > heap_end()) {
			first += segment_size();
			continue;
		}
		extent_begin(e, node, (uint32_t)first);
		result = extent_extend(e, end);
		if (result != NEAR__OCCUPIED)
			return result;
		first = segments_pass(first, end - first, &passed);
	}
	return NEAR__OCCUPIED;
}

/* Makes *e a new extent, in which `count` pages are usable, beginning at `align`. OCCUPIED: no
 * unclaimed segments have room for them. */
static enum near__commit extent_claim(struct near__extent *e, unsigned node, uint32_t count,
				      uint32_t align)
{
	enum near__commit result;

	near__heap_lock(&lock);
	result = claim_locked(e, node, count, align);
	near_lock_unlock(&lock);
	return result;
}

/* Makes the memory and the tables below the page `end` usable. OCCUPIED: the extent ends in front
 * of it. */
static enum near__commit extent_commit(struct near__extent *e, uint64_t end)
{
	enum near__commit result = NEAR__OCCUPIED;

	if (end >= e->refused)
		return result;
	if (end <= e->end) {
		result = commit_all(e, end);
	} else {
		near__heap_lock(&lock);
		if (are_unclaimed(e->end, segments_end(end)) && end <= heap_end())
			result = extent_extend(e, end);
		near_lock_unlock(&lock);
	}
	if (result == NEAR__OCCUPIED)
		e->refused = end;
	return result;
}

/* The same up to the end that was refused last, as far as there is room; unless what remains is so
 * much that it is worth being kept for blocks that fit, or there is no room for descriptors: for
 * these pages, and for `others` that are usable elsewhere but not used yet. Returns the end of the
 * usable pages. Tables first: the blocks that they describe can be used. */
static uint32_t extent_fill(struct near__extent *e, uint64_t others)
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

/* ---- the top: the end of the pages that were ever used ---- */

static void raise_top(struct near__pages *p, struct near__extent *e, uint32_t top)
{
	if (top <= e->top)
		return;
	__atomic_store_n(&p->used, p->used + (top - e->top), __ATOMIC_RELAXED);
	__atomic_store_n(&e->top, top, __ATOMIC_RELEASE); /* near__pages_contain */
	near__heap_publish((size_t)top << NEAR__PAGE_SHIFT, (size_t)near__pages_used()
								    << NEAR__PAGE_SHIFT);
}

/* The free run that ends at the top; 0: none. */
static uint32_t last_run(const struct near__extent *e)
{
	return e->top > e->first && near__page_is_free(e->top - 1) ? near__heap.owner[e->top - 1]
								   : 0;
}

/* The begin of a block at the top, which uses that run. */
static uint64_t start_of(const struct near__extent *e, uint32_t last, uint32_t align)
{
	return near__align_page(last ? near__run_at(last)->first : e->top, align);
}

/* Makes it usable for a block at its top. */
static enum near__commit extent_reach(struct near__extent *e, uint32_t count, uint32_t align)
{
	uint64_t end = start_of(e, last_run(e), align) + count;

	return extent_commit(e, end > e->top ? end : e->top);
}

/* The extent has ended. If the pages that are left are few, they become a free run.
 * `others`: those of the next extent. */
static void use_rest(struct near__pages *p, struct near__extent *e, uint64_t others)
{
	uint32_t top = e->top, end = extent_fill(e, others);

	if (end == top)
		return;
	raise_top(p, e, end);
	near__pages_free_locked(p, top, end - top, false);
}

static struct near__extent *new_extent(struct near__pages *p, uint32_t count, uint32_t align)
{
	struct near__extent *e;

	if (!p->unclaimed) {
		uint32_t number = p->newest ? near__meta_alloc(sizeof(*e)) : 0;

		p->unclaimed = number ? near__meta_at(number) : p->newest ? NULL : &p->first;
	}
	e = p->unclaimed;
	if (!e || extent_claim(e, (unsigned)(p - near__pages), count, align) != NEAR__USABLE)
		return NULL;
	if (p->newest)
		use_rest(p, p->newest, near__align_page(e->first, align) + count - e->first);
	p->unclaimed = NULL;
	e->older = p->newest;
	return p->newest = e;
}

/* The newest extent with room at its end, else a new one. */
static struct near__extent *find_extent(struct near__pages *p, uint32_t count, uint32_t align)
{
	for (struct near__extent *e = p->newest; e; e = e->older) {
		enum near__commit result = extent_reach(e, count, align);

		if (result != NEAR__OCCUPIED)
			return result == NEAR__USABLE ? e : NULL;
	}
	return new_extent(p, count, align);
}

uint32_t near__space_alloc(struct near__pages *p, uint32_t count, uint32_t align)
{
	struct near__extent *e = find_extent(p, count, align);
	uint32_t last, start, first, end;
	struct near__run r = {0};

	if (!e)
		return NEAR__NONE;
	last = last_run(e);
	if (last)
		r = *near__run_at(last);
	start = last ? r.first : e->top;
	first = (uint32_t)start_of(e, last, align);
	end = first + count;
	if (last)
		near__pages_remove(p, last);
	if (first > start)
		near__pages_insert(p, start, first - start, r.dirty, r.freed);
	if (end < e->top) /* the run is long enough because it is aligned already */
		near__pages_insert(p, end, e->top - end, r.dirty, r.freed);
	raise_top(p, e, end);
	return first;
}

bool near__space_grow(struct near__pages *p, struct near__extent *e, uint32_t number, uint64_t end)
{
	if (extent_commit(e, end) != NEAR__USABLE)
		return false;
	if (number)
		near__pages_remove(p, number);
	raise_top(p, e, (uint32_t)end);
	return true;
}

void near__space_fork(near__fork_step *step)
{
	step(&lock);
}
