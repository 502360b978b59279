/* SPDX-License-Identifier: MIT */
/* The transfer cache: full lists of a slot. Blocks that move from CPU to CPU take their cache lines
 * with them, so that a slot keeps lists up to its quota before any go to the central lists.
 *
 * The transfer caches of all slots, and chains (central/chains.h), together hold
 * near__malloc_conf.cache bytes. A slot takes a quota of these in large pieces, and returns them as
 * it decays. The thread that moved a list counts what the slot holds, outside of the sequence: it
 * may have left the slot by then. The sum is about right, and is computed again at each step of
 * decay. */
#include "malloc/base/malloc_conf.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"
#include "malloc/pages/pages.h"

#define STEP_MS 250
#define PIECE ((uint64_t)512 << 10) /* of quota */
#define MOST_AT_ONCE 32             /* lists that one step gives away */
#define LARGE_SHARE 128             /* of the heap: the lists of a class with large blocks */

static enum near__tried transfer_push(unsigned class, uint64_t list, unsigned most)
{
	struct near__bin b = near__bin_of(class);

	return near__bin_push_list(&b, near__list_waiting(list), most);
}

static enum near__tried pop_once(unsigned class, uint64_t *list)
{
	struct near__bin b = near__bin_of(class);
	uint64_t word = NEAR__EMPTY_LIST;
	enum near__tried tried = near__bin_pop_list(&b, &word, NEAR__MOST_LISTS);

	*list = near__waiting_list(word);
	return tried;
}

/* ---- quotas ---- */

static bool take_quota(struct near__cache *cache)
{
	if (!near__quota_take(&near__heap.cache_taken, near__malloc_conf.cache, PIECE))
		return false;
	__atomic_fetch_add(&cache->quota, PIECE, __ATOMIC_RELAXED);
	return true;
}

static bool may_hold(struct near__cache *cache, uint64_t bytes)
{
	uint64_t held = __atomic_load_n(&cache->held, __ATOMIC_RELAXED) + bytes;

	while (held > __atomic_load_n(&cache->quota, __ATOMIC_RELAXED))
		if (!take_quota(cache))
			return false;
	return true;
}

/* Keeps a piece more than it needs. */
static void give_quota_back(struct near__cache *cache)
{
	uint64_t held = __atomic_load_n(&cache->held, __ATOMIC_RELAXED);
	uint64_t quota = __atomic_load_n(&cache->quota, __ATOMIC_RELAXED);

	while (quota > held + 2 * PIECE)
		if (__atomic_compare_exchange_n(&cache->quota, &quota, quota - PIECE, true,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			near__quota_return(&near__heap.cache_taken, PIECE);
			quota -= PIECE;
		}
}

void near__transfer_emptied(struct near__cache *cache)
{
	__atomic_store_n(&cache->held, 0, __ATOMIC_RELAXED);
	give_quota_back(cache);
}

static void count_held(struct near__cache *cache, int64_t bytes)
{
	uint64_t held = __atomic_load_n(&cache->held, __ATOMIC_RELAXED);

	if (bytes < 0 && held < (uint64_t)-bytes)
		bytes = -(int64_t)held;
	__atomic_store_n(&cache->held, held + (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* ---- put, get ---- */

/* A large heap keeps more lists of large blocks than a small one, whose memory they would be; of
 * the largest classes a small one keeps none. The number never becomes smaller, so that every list
 * in the cache is found. */
unsigned near__transfer_most(unsigned class)
{
	uint64_t heap = (uint64_t)near__pages_used() << NEAR__PAGE_SHIFT;
	uint64_t lists = heap / LARGE_SHARE / near__batch_bytes(class);

	lists = lists < NEAR__LARGE_LISTS ? lists : NEAR__LARGE_LISTS;
	return lists > near__sizes[class].lists ? (unsigned)lists : near__sizes[class].lists;
}

void near__transfer_put(unsigned class, uint64_t list)
{
	struct near__cache *cache = near__cache_now();
	unsigned most = near__transfer_most(class);
	bool may = cache && most && may_hold(cache, near__batch_bytes(class));

	list = near__central_send_home(class, list);
	if (near__list_is_empty(list))
		return;
	NEAR__TRY_WHILE(may) {
		enum near__tried tried = transfer_push(class, list, most);

		if (tried == NEAR__COMMITTED) {
			count_held(cache, (int64_t)near__batch_bytes(class));
			near__tally(&near__tally_of(class)->spills, &near__overflow[class].spills);
			return;
		}
		if (tried == NEAR__REFUSED || !near__cache_open(class))
			break;
	}
	near__central_give(class, list);
}

static bool transfer_pop(unsigned class, uint64_t *list)
{
	enum near__tried tried = NEAR__ABORTED;

	NEAR__TRY_WHILE(tried == NEAR__ABORTED)
		tried = pop_once(class, list);
	return tried == NEAR__COMMITTED;
}

/* After a list was taken from this slot. */
static void note_taken(unsigned class)
{
	struct near__cache *cache = near__cache_now();
	uint32_t left;

	if (!cache)
		return;
	count_held(cache, -(int64_t)near__batch_bytes(class));
	left = __atomic_load_n(&cache->transfers[class], __ATOMIC_RELAXED);
	if (left < __atomic_load_n(&cache->fewest[class], __ATOMIC_RELAXED))
		__atomic_store_n(&cache->fewest[class], left, __ATOMIC_RELAXED);
}

uint64_t near__transfer_get(unsigned class, void **untouched)
{
	uint64_t list;

	if (!near__transfer_most(class) || !transfer_pop(class, &list))
		return near__central_fetch(class, near__sizes[class].batch, untouched);
	note_taken(class);
	near__tally(&near__tally_of(class)->refills, &near__overflow[class].refills);
	return list;
}

/* ---- decay ---- */

/* Half of the idle lists, so that lists that are needed now and then go slowly. Returns how many
 * more lists may be given away. */
static int decay_class(struct near__cache *cache, unsigned class, int left)
{
	uint32_t lists = __atomic_load_n(&cache->transfers[class], __ATOMIC_RELAXED);
	uint32_t fewest = __atomic_load_n(&cache->fewest[class], __ATOMIC_RELAXED);
	uint32_t idle = fewest < lists ? fewest : lists;
	uint64_t list;

	for (idle = idle / 2; idle > 0 && left > 0 && transfer_pop(class, &list); idle--, left--)
		near__central_give(class, list);
	lists = __atomic_load_n(&cache->transfers[class], __ATOMIC_RELAXED);
	__atomic_store_n(&cache->fewest[class], lists, __ATOMIC_RELAXED);
	return left;
}

static void count_again(struct near__cache *cache)
{
	uint64_t held = 0;

	for (unsigned class = 1; class <= NEAR__SIZES; class ++) {
		uint32_t n = __atomic_load_n(&cache->transfers[class], __ATOMIC_RELAXED);

		if (n - 1 <= NEAR__MOST_LISTS) /* neither unused nor closed */
			held += (n - 1) * near__batch_bytes(class);
	}
	__atomic_store_n(&cache->held, held, __ATOMIC_RELAXED);
}

void near__transfer_decay(uint64_t now)
{
	struct near__cache *cache = near__heap.caches ? near__cache_now() : NULL;
	uint64_t due = cache ? __atomic_load_n(&cache->due, __ATOMIC_RELAXED) : 0;
	int left = MOST_AT_ONCE;

	if (!cache || now < due ||
	    !__atomic_compare_exchange_n(&cache->due, &due, now + STEP_MS, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	for (unsigned class = 1; class <= NEAR__SIZES; class ++)
		left = decay_class(cache, class, left);
	count_again(cache);
	give_quota_back(cache);
}
