/* SPDX-License-Identifier: MIT */
/* The return of free pages to the system, the oldest first: those that are old enough, and those
 * beyond what may be free at all. */
#include "malloc/base/malloc_conf.h"
#include "malloc/pages/node.h"

/* How many pages may be dirty and free, however new they are: half of the pages in use, and at
 * least this many. */
#define LEAST_KEPT ((uint64_t)64 << 20 >> NEAR__PAGE_SHIFT)
/* Pages that are returned beyond this number, so that not every call has to return some. */
#define SLACK ((uint64_t)1 << 20 >> NEAR__PAGE_SHIFT)
/* Pages that are returned under one lock. */
#define AT_ONCE ((uint64_t)4 << 20 >> NEAR__PAGE_SHIFT)

struct near_lock near__purging;

/* Whether a run can be cut in three, once its own descriptor is spare. */
static bool can_cut(struct near__pages *p)
{
	uint32_t number = p->spare ? 0 : near__meta_alloc_run(sizeof(struct near__run));

	if (number) {
		near__run_at(number)->left = 0;
		p->spare = number;
	}
	return p->spare != 0;
}

/* Up to `most` pages of the run from a dirty one on, by whole pages of the system. None if it is in
 * fact clean, or if what is dirty shares pages of the system with blocks: its bits stay set, and it
 * goes when one of its neighbours is freed. */
static void choose_dirty(const struct near__run *r, uint64_t most, struct near__run *out)
{
	uint32_t unit = near__system_page(), end = r->first + r->count;
	uint32_t from = (r->first + unit - 1) & ~(unit - 1), to = end & ~(unit - 1);

	out->first = end;
	out->count = 0;
	if (from >= to)
		return;
	from = near__dirty_next(from, to) & ~(unit - 1);
	most = most < unit ? unit : most & ~((uint64_t)unit - 1);
	if (from < to) {
		out->first = from;
		out->count = to - from < most ? to - from : (uint32_t)most;
	}
}

/* Cuts such pages out of the oldest run; all of it if there are no descriptors for the rest. False:
 * no run is due. */
static bool take_dirty(struct near__pages *p, uint64_t decay_ms, uint64_t most,
		       struct near__run *out)
{
	uint32_t number = p->runs.oldest, end;
	struct near__run r;

	if (!number || !near__run_is_due(near__run_at(number), decay_ms))
		return false;
	r = *out = *near__run_at(number);
	end = r.first + r.count;
	if (can_cut(p))
		choose_dirty(&r, most, out);
	near__pages_remove(p, number);
	if (out->first > r.first)
		near__pages_insert(p, r.first, out->first - r.first, false, 0);
	if (out->first + out->count < end)
		near__pages_insert(p, out->first + out->count, end - out->first - out->count, true,
				   r.freed);
	near__pages_take(p, out->first, out->count);
	return true;
}

static void pages_give_back(struct near__pages *p, uint32_t first, uint32_t count)
{
	near__dirty_discard(first, first + count);
	near__heap_lock(&p->lock);
	near__pages_free_locked(p, first, count, false);
	p->stats.purged += count;
	p->stats.purges++;
	near_lock_unlock(&p->lock);
}

/* Requires near__purging. The node's lock is not held while the system takes the pages: they appear
 * allocated to other threads. Returns how many pages were returned; NO_RUN: none is due. */
#define NO_RUN UINT64_MAX
static uint64_t purge_some(struct near__pages *p, uint64_t decay_ms, uint64_t most)
{
	struct near__run r;
	bool taken;

	near__heap_lock(&p->lock);
	taken = take_dirty(p, decay_ms, most, &r);
	near_lock_unlock(&p->lock);
	if (!taken)
		return NO_RUN;
	if (r.count)
		pages_give_back(p, r.first, r.count);
	return r.count;
}

/* Forks need not wait for all of it. */
size_t near__pages_purge(uint64_t decay_ms, size_t most)
{
	uint64_t all = most >> NEAR__PAGE_SHIFT, purged = 0, n;

	for (unsigned i = 0; i < near__heap.nodes; i++)
		while (purged < all) {
			near_lock_lock(&near__purging);
			n = purge_some(&near__pages[i], decay_ms,
				       all - purged < AT_ONCE ? all - purged : AT_ONCE);
			near_lock_unlock(&near__purging);
			if (n == NO_RUN)
				break;
			purged += n;
		}
	return (size_t)purged << NEAR__PAGE_SHIFT;
}

/* A program that frees and allocates as much again and again pays for each returned page twice.
 * For each page that was returned by volume, and needed again, MORE_KEPT more pages may therefore
 * be free: the program pays for few of its pages, and once. In a process that changes, half of
 * these are forgotten in each period. Guarded by near__purging; `kept` and `since` are read without
 * it. */
#define MORE_KEPT 8
#define FORGOTTEN_MS 10000
static struct {
	uint64_t returned; /* pages by volume, not needed again so far */
	uint64_t kept;     /* at most as many as the heap has */
	uint64_t taken;    /* near__pages.taken, when it was last read */
	uint64_t since;    /* when half was last forgotten, ms */
} again;

/* Since half was last forgotten: another thread may have done that after this one's `now`. */
static uint64_t purge_periods(uint64_t now)
{
	int64_t ms = (int64_t)(now - __atomic_load_n(&again.since, __ATOMIC_RELAXED));

	return ms < FORGOTTEN_MS ? 0 : (uint64_t)ms / FORGOTTEN_MS;
}

/* An estimate: the numbers change. */
static uint64_t count_dirty(void)
{
	uint64_t dirty = 0;

	for (unsigned i = 0; i < near__heap.nodes; i++)
		dirty += __atomic_load_n(&near__pages[i].stats.dirty, __ATOMIC_RELAXED);
	return dirty;
}

/* An estimate: the numbers change. Once a period has passed, `kept` is too large, and counts only
 * after purge_learn() has halved it. */
static uint64_t purge_excess(uint64_t now)
{
	uint64_t dirty = count_dirty(), in_use = near__pages_used(), most;

	if (NEAR__LIKELY(dirty <= LEAST_KEPT))
		return 0;
	for (unsigned i = 0; i < near__heap.nodes; i++)
		in_use -= __atomic_load_n(&near__pages[i].stats.free, __ATOMIC_RELAXED);
	/* The sums are of different moments, and the second may be too large. */
	most = (int64_t)in_use > 0 ? in_use / 2 : 0;
	most = most < LEAST_KEPT ? LEAST_KEPT : most;
	if (dirty > most && !purge_periods(now))
		most += __atomic_load_n(&again.kept, __ATOMIC_RELAXED);
	return dirty > most ? dirty - most : 0;
}

/* Requires near__purging. */
static void purge_learn(uint64_t now)
{
	uint64_t passed = purge_periods(now), taken = 0, all = near__pages_used(), n;
	uint64_t kept = passed < 64 ? again.kept >> passed : 0;

	for (unsigned i = 0; i < near__heap.nodes; i++)
		taken += __atomic_load_n(&near__pages[i].taken, __ATOMIC_RELAXED);
	n = taken - again.taken;
	n = n < again.returned ? n : again.returned;
	again.taken = taken;
	again.returned -= n;
	kept += n * MORE_KEPT;
	__atomic_store_n(&again.kept, kept < all ? kept : all, __ATOMIC_RELAXED);
	if (passed) {
		__atomic_store_n(&again.since, now, __ATOMIC_RELAXED);
		again.returned = 0;
	}
}

/* Requires near__purging. Returns how many pages were returned. */
static uint64_t return_some(uint64_t most)
{
	uint64_t sum = 0, n;

	for (unsigned i = 0; i < near__heap.nodes; i++)
		while (sum < most && (n = purge_some(&near__pages[i], 0, most - sum)) != NO_RUN)
			sum += n;
	again.returned += sum;
	return sum;
}

/* One thread at a time: what the others find too much is the same. It returns as much as was too
 * much at the beginning, while the others free more. */
void near__pages_limit(uint64_t now)
{
	uint64_t left = purge_excess(now), n = 1;

	if (NEAR__LIKELY(!left) || near__malloc_conf.decay_ms == UINT64_MAX)
		return;
	for (left += SLACK; left && n && near_lock_try_lock(&near__purging); left -= n) {
		uint64_t most = left < AT_ONCE ? left : AT_ONCE;

		purge_learn(now);
		n = purge_excess(now) ? return_some(most) : 0;
		n = n < left ? n : left;
		near_lock_unlock(&near__purging);
	}
}

/* The process would grow by the new pages, although it does not need those that are free: large
 * ones that no block of this size fits into. Those that are needed again stay. */
void near__pages_replace(uint64_t count)
{
	uint64_t n = 1, dirty;

	if (near__malloc_conf.decay_ms == UINT64_MAX)
		return;
	while (count && n && near_lock_try_lock(&near__purging)) {
		purge_learn(near__os_ms());
		dirty = count_dirty();
		n = dirty > again.kept ? dirty - again.kept : 0;
		n = n < count ? n : count;
		n = n ? return_some(n < AT_ONCE ? n : AT_ONCE) : 0;
		count -= n < count ? n : count;
		near_lock_unlock(&near__purging);
	}
}

void near__pages_stats(struct near__pages_stats *out)
{
	*out = (struct near__pages_stats){.top = near__pages_used()};
	for (unsigned i = 0; i < near__heap.nodes; i++) {
		struct near__pages *p = &near__pages[i];

		near__heap_lock(&p->lock);
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

void near__purge_fork(near__fork_step *step)
{
	step(&near__purging);
}
