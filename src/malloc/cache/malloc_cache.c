/* SPDX-License-Identifier: MIT */
/* The slow paths of the per-CPU cache: an empty list is exchanged for a full one, and a full one
 * for an empty one. */
#include "malloc/cache/malloc_cache.h"

#include "malloc/central/central.h"

static enum near__tried list_fill(unsigned class, uint64_t list)
{
	struct near__bin b = near__bin_of(class);

	return near__bin_fill(&b, list);
}

static enum near__tried take_list(unsigned class, uint64_t *list)
{
	struct near__bin b = near__bin_of(class);

	return near__bin_take(&b, list);
}

static void put_list(unsigned class, uint64_t list)
{
	if (near__list_is_empty(list))
		return;
	NEAR__TRY_WHILE(true) {
		enum near__tried tried = list_fill(class, list);

		if (tried == NEAR__COMMITTED)
			return;
		if (tried == NEAR__REFUSED || !near__cache_open(class))
			break;
	}
	near__transfer_put(class, list);
}

/* ---- slow paths ---- */

/* Stores a hint, and returns the one before. */
static bool hint_note(bool *hint, bool now)
{
	bool before = __atomic_load_n(hint, __ATOMIC_RELAXED);

	if (before != now)
		__atomic_store_n(hint, now, __ATOMIC_RELAXED);
	return before;
}

static bool may_try(void)
{
	return near__self.state <= NEAR__THREAD_LIVE;
}

/* The list of an entry may have a batch, and half of one more if `longer`. */
static void set_limit(struct near__cache *cache, unsigned class, bool longer)
{
	unsigned batch = near__central_batch(class), limit = batch + (longer ? batch / 2 : 0);

	if (cache && __atomic_load_n(&cache->entries[class].limit, __ATOMIC_RELAXED) != limit)
		__atomic_store_n(&cache->entries[class].limit, (uint8_t)limit, __ATOMIC_RELAXED);
}

/* If the slot has just given a list away, the one that was fetched may become longer: otherwise the
 * second of two frees sends away what the second of two allocations fetches again. */
static void note_fetched(unsigned class)
{
	struct near__cache *cache = near__cache_now();

	set_limit(cache, class, cache && hint_note(&cache->spilled[class], false));
}

/* *list becomes a list of blocks that the caller owns: that of this slot, of which a pop was
 * aborted or found the first block damaged; or one from the transfer cache or the central lists; or
 * empty, and *untouched a block from there. */
static enum near__tried find_list(unsigned class, uint64_t *list, void **untouched)
{
	enum near__tried tried = NEAR__ABORTED;

	NEAR__TRY_WHILE(tried == NEAR__ABORTED && may_try()) {
		tried = take_list(class, list);
		if (tried == NEAR__ABORTED && !near__cache_open(class))
			break;
	}
	if (tried == NEAR__REFUSED)
		*list = near__transfer_get(class, untouched);
	return tried;
}

bool near__cache_alloc(unsigned class, void **p)
{
	uint64_t list;
	enum near__tried tried;

	*p = NULL;
	tried = find_list(class, &list, p);
	if (tried == NEAR__ABORTED)
		return false;
	if (!*p && near__list_is_empty(list))
		return true;
	if (!*p)
		*p = near__list_take(&list);
	near__tally(&near__tally_of(class)->taken, &near__overflow[class].taken);
	if (tried == NEAR__REFUSED)
		note_fetched(class);
	put_list(class, list);
	return true;
}

/* Of a list that became longer than a batch, the slot keeps half a batch: the next allocations find
 * blocks, and the next frees find room. */
static void list_spill(unsigned class, uint64_t list)
{
	struct near__cache *cache = near__cache_now();
	unsigned batch = near__central_batch(class);

	if (batch > 1 && near__list_length(list) > batch)
		put_list(class, near__space_cut(near__heap_space(), &list, batch / 2));
	set_limit(cache, class, false);
	if (cache)
		hint_note(&cache->spilled[class], true);
	if (!near__list_is_empty(list))
		near__transfer_put(class, list);
}

/* The whole list goes to the transfer cache, or most of it. */
static bool list_make_room(unsigned class, uint64_t block)
{
	uint64_t list;
	enum near__tried tried = take_list(class, &list);

	if (tried == NEAR__COMMITTED && list == block)
		near__heap_die("double free", block);
	if (tried == NEAR__COMMITTED)
		list_spill(class, list);
	return tried != NEAR__ABORTED || near__cache_open(class);
}

bool near__cache_free(unsigned class, uint64_t block)
{
	NEAR__TRY_WHILE(may_try())
		if (near__push_by_slot(near__entry_of(class), block))
			return true;
		else if (!list_make_room(class, block))
			break;
		else
			/* The list that left may have contained it. */
			near__refuse_freed(class, block);
	return false;
}

void near__cache_give_large(void)
{
	const struct near__cache *own = near__cache_now(); /* a hint */

	for (unsigned class = NEAR__FIRST_LARGE; own && class <= NEAR__SIZES; class ++) {
		uint64_t list = __atomic_load_n(&own->entries[class].list, __ATOMIC_RELAXED);

		if (!near__list_is_empty(list) && take_list(class, &list) == NEAR__COMMITTED)
			near__central_give(class, list);
	}
}
