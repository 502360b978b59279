/* SPDX-License-Identifier: MIT */
/* Empties the caches of another slot.
 *
 * An entry is closed by exchanging its list, and the number of its transfer cache, for values at
 * which every sequence gives up. A sequence that had loaded the old values may still commit, until
 * the fence. One of the two words then differs from the closed value; the committed value is the
 * valid one, and the entry is closed again, which returns it. A sequence that begins after the
 * exchange commits nothing. A round therefore fails only if a sequence was running at the moment of
 * the exchange. Entries that are not in use yet hold nothing, and are skipped: a thread that begins
 * one concurrently (slot.c) begins an empty one.
 *
 * After the fence no other thread has the lists. Each entry is opened by its two words: first the
 * transfer cache, whose lists have been read by then. */
#include "malloc/cache/cache.h"
#include "malloc/central/central.h"

#define CLOSED_TRANSFER UINT32_MAX

/* Held from the first close to the last open, so that nobody forks in between. */
static struct near_lock lock;

struct drain {
	struct near__cache *cache;
	uint64_t lists[NEAR__SIZES + 1];
	uint32_t transfers[NEAR__SIZES + 1];
	uint8_t open[NEAR__SIZES]; /* classes still to be closed */
	unsigned n;
};

static bool is_closed(const struct near__cache *cache, unsigned class)
{
	return __atomic_load_n(&cache->entries[class].list, __ATOMIC_RELAXED) ==
		       NEAR__CLOSED_LIST &&
	       __atomic_load_n(&cache->transfers[class], __ATOMIC_RELAXED) == CLOSED_TRANSFER;
}

/* A word that is closed already was not changed since the round before. */
static void close_entry(struct drain *d, unsigned class)
{
	struct near__entry *e = &d->cache->entries[class];
	uint32_t lists =
		__atomic_exchange_n(&d->cache->transfers[class], CLOSED_TRANSFER, __ATOMIC_ACQ_REL);
	uint64_t list = __atomic_exchange_n(&e->list, NEAR__CLOSED_LIST, __ATOMIC_ACQ_REL);

	if (lists != CLOSED_TRANSFER)
		d->transfers[class] = lists;
	if (list != NEAR__CLOSED_LIST)
		d->lists[class] = list;
}

static void close_all(struct drain *d)
{
	while (d->n) {
		unsigned left = 0;

		for (unsigned i = 0; i < d->n; i++)
			close_entry(d, d->open[i]);
		near__fence();
		__atomic_fetch_add(&near__drains.fences, 1, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < d->n; i++)
			if (!is_closed(d->cache, d->open[i]))
				d->open[left++] = d->open[i];
		d->n = left;
	}
}

static void give_class(struct drain *d, unsigned class)
{
	struct near__entry *e = &d->cache->entries[class];
	const uint64_t *row = &d->cache->transfer[near__sizes[class].row];
	uint32_t n = d->transfers[class];

	for (uint32_t i = 0; i + 1 < n; i++)
		near__central_give(class, near__waiting_list(row[i]));
	if (!near__list_is_empty(d->lists[class]))
		near__central_give(class, d->lists[class]);
	__atomic_store_n(&d->cache->transfers[class], 1, __ATOMIC_RELEASE);
	/* Release: the lists were read, and their blocks given away, before other threads store
	 * here. */
	__atomic_store_n(&e->list, NEAR__EMPTY_LIST, __ATOMIC_RELEASE);
}

struct near__drains near__drains;

void near__drain_slot(unsigned slot)
{
	struct drain d = {.cache = near_percpu_at(near__heap.caches, slot)};
	uint8_t closed[NEAR__SIZES];
	unsigned n = 0;

	near_lock_lock(&lock);
	for (unsigned c = 1; c <= NEAR__SIZES; c++)
		if (__atomic_load_n(&d.cache->entries[c].list, __ATOMIC_RELAXED))
			closed[n++] = d.open[d.n++] = (uint8_t)c;
	close_all(&d);
	for (unsigned i = 0; i < n; i++)
		give_class(&d, closed[i]);
	near__transfer_emptied(d.cache);
	__atomic_fetch_add(&near__drains.slots, 1, __ATOMIC_RELAXED);
	near_lock_unlock(&lock);
}

void near__drain_fork(near__fork_step *step)
{
	step(&lock);
}

void near__drain_all(void)
{
	for (unsigned s = 0; near__cache_next(&s); s++)
		near__drain_slot(s);
}
