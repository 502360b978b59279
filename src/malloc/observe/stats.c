/* SPDX-License-Identifier: MIT */
/* Statistics: sums of the counts of each level.
 *
 * The words of other slots are loaded while their owners change them, each separately and relaxed:
 * a sum is no snapshot. It is exact while nothing runs, except for sequences that were aborted
 * between a count and their commit. No list of blocks is walked: the blocks of the slots are those
 * that left the spans and that the program does not have. Errors by aborts accumulate while a
 * program runs, but are bounded by the number of blocks that the lists can have. */
#include <errno.h>
#include <nearcpu/malloc.h>
#include <string.h>

#include "malloc/cache/cache.h"
#include "malloc/cache/shard.h"
#include "malloc/pages/pages.h"
#include "malloc/central/central.h"
#include "malloc/observe/stats.h"

static uint64_t read_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static uint64_t read_sum(const int64_t *sum)
{
	return (uint64_t)__atomic_load_n(sum, __ATOMIC_RELAXED);
}

struct sums {
	uint64_t slotless, carved; /* carved: bytes */
	uint64_t lists;            /* of the class, at most */
};

static void add_tally(struct near_malloc_class_stats *c, const struct near__tally *t)
{
	uint64_t taken = read_sum(&t->taken);

	c->allocations += taken;
	c->in_use += taken;
	c->refills += read_sum(&t->refills);
	c->spills += read_sum(&t->spills);
}

/* room + delta: how many more blocks the fast paths took than they put. */
static void add_slot(struct near_malloc_class_stats *c, const struct near__cache *cache,
		     unsigned class, struct sums *sums)
{
	uint32_t lists = __atomic_load_n(&cache->transfers[class], __ATOMIC_RELAXED);
	uint64_t count = read_word(&cache->entries[class].count), fast = count >> NEAR__TAKEN_SHIFT;

	c->fast += fast;
	c->allocations += fast;
	c->in_use += (count & 0xffff) + read_sum(&cache->deltas[class]);
	add_tally(c, &cache->tallies[class]);
	/* transfers is 1 more, for the list of the entry; or the entry is closed. */
	sums->lists += lists <= NEAR__MOST_LISTS + 1 ? lists : 0;
}

/* Returns the allocations of threads without a slot. */
static uint64_t add_local(struct near_malloc_class_stats *c, unsigned class)
{
	struct near__thread_cache_stats own, shared;
	uint64_t refills, spills;

	near__thread_cache_stats(class, &own, &shared);
	near__shards_stats(class, &refills, &spills);
	c->refills += refills;
	c->spills += spills;
	c->fast += own.taken - own.missed;
	c->allocations += own.taken + shared.taken;
	c->in_use += (uint64_t)(own.in_use + shared.in_use);
	return own.taken + shared.taken;
}

static void add_central(struct near_malloc_class_stats *c, const struct near__central_stats *from,
			unsigned class)
{
	const struct near__size *z = &near__sizes[class];
	uint64_t blocks = from->spans * z->objects;

	/* Each list from there answered one allocation. */
	c->hits = c->allocations > from->refills ? c->allocations - from->refills : 0;
	c->central_refills = from->refills;
	c->central_spills = from->spills;
	c->spans = from->spans;
	c->span_bytes = from->spans * z->pages * NEAR__PAGE;
	c->central = blocks > from->out ? blocks - from->out : 0;
	c->cached = from->out > c->in_use ? from->out - c->in_use : 0;
}

/* lists: those of blocks that are out but not in use, except for the shared one of thread_cache.c.
 * */
static void bound(struct near_malloc_class_stats *c, unsigned class, uint64_t out, uint64_t lists)
{
	uint64_t batch = near__sizes[class].batch, most = (lists + 1) * (batch + batch / 2 + 1);
	int64_t least = out > most ? (int64_t)(out - most) : 0, in_use = (int64_t)c->in_use;

	if (in_use < least)
		c->in_use = (uint64_t)least;
	else if (in_use > (int64_t)out)
		c->in_use = out;
}

static void read_class(struct near_malloc_class_stats *c, unsigned class, struct sums *sums)
{
	struct near__central_stats central;

	memset(c, 0, sizeof(*c));
	c->size = near__sizes[class].size;
	sums->lists = 0;
	for (unsigned s = 0; near__cache_next(&s); s++)
		add_slot(c, near_percpu_at(near__heap.caches, s), class, sums);
	add_tally(c, &near__overflow[class]);
	sums->slotless += add_local(c, class);
	near__central_stats(class, &central);
	if (near__heap.caches)
		bound(c, class, central.out, sums->lists + central.waiting);
	add_central(c, &central, class);
	sums->carved += central.carved * c->size;
}

static void add_class(struct near_malloc_stats *s, const struct near_malloc_class_stats *c)
{
	s->allocations += c->allocations;
	s->hits += c->hits;
	s->fast += c->fast;
	s->refills += c->refills;
	s->spills += c->spills;
	s->central_refills += c->central_refills;
	s->central_spills += c->central_spills;
	s->in_use += c->in_use * c->size;
	s->cached += c->cached * c->size;
	s->central += c->span_bytes;
}

static void read_large(struct near_malloc_stats *s)
{
	const struct near__large_stats *l = &near__large_stats;

	s->large_allocations = read_word(&l->taken);
	s->large_blocks = s->large_allocations - read_word(&l->freed);
	s->large = read_word(&l->pages) * NEAR__PAGE;
	s->in_use += s->large;
}

static void read_space(struct near_malloc_stats *s, uint64_t top)
{
	for (unsigned i = 0; near__cache_next(&i); i++)
		s->slots++;
	s->threads = near__thread_cache_count();
	s->metadata = near__meta_used() + top * 5 + top / 8 + s->slots * sizeof(struct near__cache);
}

static void read_pages(struct near_malloc_stats *s, uint64_t carved)
{
	struct near__pages_stats pages;

	near__pages_stats(&pages);
	s->free_dirty = pages.dirty * NEAR__PAGE;
	s->free_clean = (pages.free - pages.dirty) * NEAR__PAGE;
	s->given_back = pages.purged * NEAR__PAGE;
	s->give_backs = pages.purges;
	s->reserved = near__heap.size;
	s->committed =
		pages.committed + __atomic_load_n(&near__heap.meta.committed, __ATOMIC_RELAXED);
	read_space(s, pages.top);
	s->resident = carved + s->large + s->free_dirty + s->metadata;
}

static void read_all(struct near_malloc_stats *s)
{
	struct near_malloc_class_stats c;
	struct sums sums = {0, 0, 0};

	memset(s, 0, sizeof(*s));
	s->classes = NEAR__SIZES;
	if (!__atomic_load_n(&near__heap.ready, __ATOMIC_ACQUIRE)) /* as near__heap_ready */
		return;
	for (unsigned class = 1; class <= NEAR__SIZES; class ++) {
		read_class(&c, class, &sums);
		add_class(s, &c);
	}
	/* Without the blocks that are out. */
	s->central -= s->central > s->in_use + s->cached ? s->in_use + s->cached : s->central;
	s->slotless = sums.slotless;
	s->drains = read_word(&near__drains.slots);
	s->fences = read_word(&near__drains.fences);
	read_large(s);
	read_pages(s, sums.carved);
}

/* Copies the fields that the caller's version of the structure has. */
static int hand_out(void *out, size_t size, const void *all, size_t all_size)
{
	size_t common = size < all_size ? size : all_size;

	if (!size)
		return -EINVAL;
	memcpy(out, all, common);
	memset((char *)out + common, 0, size - common);
	return 0;
}

int near_malloc_stats(struct near_malloc_stats *out, size_t size)
{
	struct near_malloc_stats all;

	read_all(&all);
	return hand_out(out, size, &all, sizeof(all));
}

int near_malloc_class_stats(struct near_malloc_class_stats *out, size_t size, unsigned n)
{
	struct near_malloc_class_stats all;
	struct sums ignored = {0, 0, 0};

	if (n >= NEAR__SIZES)
		return -ENOENT;
	read_class(&all, n + 1, &ignored);
	return hand_out(out, size, &all, sizeof(all));
}
