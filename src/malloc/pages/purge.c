/* SPDX-License-Identifier: MIT */
/* The return of free pages to the system, the oldest first. */
#include "malloc/pages/node.h"

/* Cuts up to `most` pages, of which the first is dirty, out of the oldest run; none if the run is
 * in fact clean. False: no run is due. */
static bool take_dirty(struct near__pages *p, uint64_t decay_ms, uint64_t most,
		       struct near__run *out)
{
	uint32_t number, end;
	struct near__run r;

	near_lock_lock(&p->lock);
	number = p->dirty.oldest;
	if (!number || !near__run_is_due(near__run_at(number), decay_ms)) {
		near_lock_unlock(&p->lock);
		return false;
	}
	r = *near__run_at(number);
	end = r.first + r.count;
	out->first = near__dirty_next(r.first, end);
	out->count = end - out->first < most ? end - out->first : (uint32_t)most;
	near__pages_remove(p, number);
	if (out->first > r.first)
		near__pages_insert(p, r.first, out->first - r.first, false, 0);
	if (out->first + out->count < end)
		near__pages_insert(p, out->first + out->count, end - out->first - out->count, true,
				   r.freed);
	near__page_map_mark(out->first, out->count);
	near_lock_unlock(&p->lock);
	return true;
}

static void give_back(struct near__pages *p, uint32_t first, uint32_t count)
{
	near__dirty_discard(first, first + count);
	near_lock_lock(&p->lock);
	near__pages_free_locked(p, first, count, false);
	p->stats.purged += count;
	p->stats.purges++;
	near_lock_unlock(&p->lock);
}

/* No lock is held while the system takes the pages: they appear allocated to other threads. */
size_t near__pages_purge(uint64_t decay_ms, size_t most)
{
	uint64_t all = most >> NEAR__PAGE_SHIFT, purged = 0;
	struct near__run r;

	for (unsigned i = 0; i < near__heap.nodes; i++)
		while (purged < all && take_dirty(&near__pages[i], decay_ms, all - purged, &r)) {
			if (r.count)
				give_back(&near__pages[i], r.first, r.count);
			purged += r.count;
		}
	return (size_t)purged << NEAR__PAGE_SHIFT;
}

void near__pages_stats(struct near__pages_stats *out)
{
	*out = (struct near__pages_stats){.top = near__pages_used()};
	for (unsigned i = 0; i < near__heap.nodes; i++) {
		struct near__pages *p = &near__pages[i];

		near_lock_lock(&p->lock);
		out->free += p->stats.free;
		out->dirty += p->stats.dirty;
		out->purged += p->stats.purged;
		out->purges += p->stats.purges;
		for (const struct near__extent *e = p->newest; e; e = e->older)
			out->committed += e->blocks.committed + e->map.committed +
					  e->owners.committed + e->dirty.committed;
		near_lock_unlock(&p->lock);
	}
}
