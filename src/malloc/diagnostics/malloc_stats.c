/* SPDX-License-Identifier: MIT */
/* Statistics: sums of the counts of each level.
 *
 * The words of other slots are loaded while their owners change them, each separately and relaxed:
 * a sum is no snapshot. It is exact while nothing runs. No list of blocks is walked: a waiting list
 * has its length in its word, and the list of an entry in the link of its first block. The blocks
 * that the program has are those that left the spans, without those in the lists; without
 * sequences, those that threads took and did not free. */
#include <errno.h>
#include <nearcpu/malloc.h>
#include <string.h>

#include "base/known.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"
#include "malloc/diagnostics/malloc_stats.h"
#include "malloc/pages/pages.h"

static uint64_t read_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static uint64_t read_sum(const int64_t *sum)
{
	return (uint64_t)__atomic_load_n(sum, __ATOMIC_RELAXED);
}

static uint64_t stats_less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

struct sums {
	uint64_t slotless, carved; /* carved: bytes */
};

static void add_tally(struct near_malloc_class_stats *c, const struct near__tally *t)
{
	c->misses += read_sum(&t->taken);
	c->refills += read_sum(&t->refills);
	c->spills += read_sum(&t->spills);
}

/* The lists of the entries of one class. */
struct entries {
	unsigned class, n;
	uint64_t lists[NEAR__PEEKED];
};

/* A block may have left its list by now, and be the program's, which may have made it unreadable:
 * hence no loads. Its word is then no link, and the list counts as empty. */
static uint64_t lengths_of(struct entries *e)
{
	const struct near__size *z = &near__sizes[e->class];
	uint64_t *blocks[NEAR__PEEKED], links[NEAR__PEEKED] = {0}, sum = 0;

	for (unsigned i = 0; i < e->n; i++)
		blocks[i] = near__list_block(e->lists[i]);
	near__os_peek(links, blocks, e->n);
	for (unsigned i = 0; i < e->n; i++)
		if (near__unlink(e->lists[i], links[i]) < near__heap.size &&
		    (uint8_t)links[i] <= z->batch + z->batch / 2)
			sum += (uint8_t)links[i];
	e->n = 0;
	return sum;
}

static void add_entry(struct near_malloc_class_stats *c, struct entries *e, uint64_t list)
{
	if (near__list_is_empty(list))
		return;
	e->lists[e->n++] = list;
	if (e->n == NEAR__PEEKED)
		c->cached += lengths_of(e);
}

/* No sequence has more lists than fit: the entry is closed then. */
static uint64_t waiting_in(const struct near__cache *cache, unsigned class)
{
	uint32_t lists = __atomic_load_n(&cache->transfers[class], __ATOMIC_RELAXED);
	const uint64_t *row = &cache->transfer[near__sizes[class].row];
	uint64_t sum = 0;

	for (uint32_t i = 0; lists <= NEAR__MOST_LISTS + 1 && i + 1 < lists; i++)
		sum += near__waiting_length(read_word(&row[i]));
	return sum;
}

static void add_slots(struct near_malloc_class_stats *c, unsigned class)
{
	struct entries e = {.class = class};

	for (unsigned s = 0; near__cache_next(&s); s++) {
		const struct near__cache *cache = near_percpu_at(near__heap.caches, s);

		add_entry(c, &e, read_word(&cache->entries[class].list));
		c->cached += waiting_in(cache, class);
		add_tally(c, &cache->tallies[class]);
	}
	if (e.n)
		c->cached += lengths_of(&e);
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
	c->misses += own.missed + shared.missed;
	c->cached += shared.cached;
	c->in_use += (uint64_t)(own.in_use + shared.in_use);
	return own.taken + shared.taken;
}

static void add_central(struct near_malloc_class_stats *c, const struct near__central_stats *from,
			unsigned class)
{
	const struct near__size *z = &near__sizes[class];
	uint64_t blocks = from->spans * z->objects;

	c->central_refills = from->refills;
	c->central_spills = from->spills;
	c->spans = from->spans;
	c->span_bytes = from->spans * z->pages * NEAR__PAGE;
	c->central = stats_less(blocks, from->out);
	/* A list that moves in the meantime may be counted twice. */
	if (near__heap.caches)
		c->in_use = stats_less(from->out, c->cached + from->waiting);
	c->cached = stats_less(from->out, c->in_use);
}

static void read_class(struct near_malloc_class_stats *c, unsigned class, struct sums *sums)
{
	struct near__central_stats central;

	memset(c, 0, sizeof(*c));
	c->size = near__sizes[class].size;
	if (!near__heap_has_begun())
		return;
	add_slots(c, class);
	add_tally(c, &near__overflow[class]);
	sums->slotless += add_local(c, class);
	near__central_stats(class, &central);
	add_central(c, &central, class);
	sums->carved += central.carved * c->size;
}

static void add_class(struct near_malloc_stats *s, const struct near_malloc_class_stats *c)
{
	s->misses += c->misses;
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
	s->committed = pages.committed + near__meta_committed();
	read_space(s, pages.top);
	s->resident = carved + s->large + s->free_dirty + s->metadata;
}

/* And those of the classes, unless `classes` is NULL. */
static void read_all(struct near_malloc_stats *s, struct near_malloc_class_stats *classes)
{
	struct near_malloc_class_stats one, *c = &one;
	struct sums sums = {0, 0};

	memset(s, 0, sizeof(*s));
	s->classes = NEAR__SIZES;
	if (!near__heap_has_begun())
		return;
	for (unsigned class = 1; class <= NEAR__SIZES; class ++) {
		c = classes ? &classes[class - 1] : c;
		read_class(c, class, &sums);
		add_class(s, c);
	}
	/* Without the blocks that are out. */
	s->central -= s->central > s->in_use + s->cached ? s->in_use + s->cached : s->central;
	s->slotless = sums.slotless;
	s->drains = read_word(&near__drains.slots);
	s->fences = read_word(&near__drains.fences);
	read_large(s);
	read_pages(s, sums.carved);
}

void near__stats_read(struct near__stats_base *out)
{
	memset(out, 0, sizeof(*out));
	read_all(&out->all, out->classes);
}

int near_malloc_stats(struct near_malloc_stats *out, size_t size)
{
	struct near_malloc_stats all;

	read_all(&all, NULL);
	return near__copy_known(out, size, &all, sizeof(all));
}

int near_malloc_class_stats(unsigned n, struct near_malloc_class_stats *out, size_t size)
{
	struct near_malloc_class_stats all;
	struct sums ignored = {0, 0};

	if (n >= NEAR__SIZES)
		return -ENOENT;
	read_class(&all, n + 1, &ignored);
	return near__copy_known(out, size, &all, sizeof(all));
}
