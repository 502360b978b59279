/* SPDX-License-Identifier: MIT */
/* Empties the caches of another slot into the central lists: cache/close.c has the protocol. */
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"

/* Held from the first close to the last open, so that nobody forks in between. */
static struct near_lock lock;

struct near__drains near__drains;

static void give_class(const struct near__cache *cache, unsigned class,
		       const struct near__closing *taken)
{
	const uint64_t *row = &cache->transfer[near__sizes[class].row];

	for (uint32_t i = 0; i + 1 < taken->lists; i++)
		near__central_give(class, near__waiting_list(row[i]));
	if (!near__list_is_empty(taken->was))
		near__central_give(class, taken->was);
	near__bin_open_empty(taken);
}

void near__drain_slot(unsigned slot)
{
	struct near__cache *cache = near_percpu_at(near__heap.caches, slot);
	struct near__closing taken[NEAR__SIZES];
	uint8_t classes[NEAR__SIZES];
	struct near__deferred misuse;
	unsigned n = 0;

	near__defer_begin(&misuse);
	near_lock_lock(&lock);
	for (unsigned c = 1; c <= NEAR__SIZES; c++)
		if (__atomic_load_n(&cache->entries[c].list, __ATOMIC_RELAXED)) {
			taken[n] = (struct near__closing){.word = &cache->entries[c].list,
							  .number = &cache->transfers[c]};
			classes[n++] = (uint8_t)c;
		}
	__atomic_fetch_add(&near__drains.fences, near__bins_close(taken, n), __ATOMIC_RELAXED);
	for (unsigned i = 0; i < n; i++)
		give_class(cache, classes[i], &taken[i]);
	near__transfer_emptied(cache);
	__atomic_fetch_add(&near__drains.slots, 1, __ATOMIC_RELAXED);
	near_lock_unlock(&lock);
	near__defer_end(&misuse);
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
