/* SPDX-License-Identifier: MIT */
/* Where there are no sequences, a shard is what the transfer cache is for a slot: the threads of a
 * CPU exchange whole lists in it, so that blocks and their cache lines stay on the CPU. The number
 * of the CPU is a hint. A lock makes the shard safe, which is held for a few stores: a list is
 * walked under it only to take a part off.
 *
 * All lists but the last one of a class count as batches. Where threads keep short lists
 * (thread_cache.c), these are joined to the last one, as long as it is shorter than a batch. */

#include "malloc/base/malloc_conf.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"

#define SHARDS 64
#define STEP_MS 250

struct stack {
	uint16_t lists, fewest;   /* fewest: since the last step of decay */
	uint16_t last;            /* blocks in the last list, at most */
	uint64_t refills, spills; /* lists, so far */
};

struct shard {
	uint64_t due;  /* time of the next step of decay, ms */
	uint64_t held; /* bytes, as if all lists were batches */
	struct stack stacks[NEAR__SIZES + 1];
	uint64_t lists[NEAR__LISTS]; /* each class has a row */
};

/* The lock guards both the pointer and the shard. */
static struct home {
	struct near_lock lock;
	struct shard *shard; /* NULL: not in use yet */
} __attribute__((aligned(NEAR__CACHE_LINE))) homes[SHARDS];

static unsigned shard_count(void)
{
	return near__process.cpus < SHARDS ? near__process.cpus : SHARDS;
}

static struct home *home_now(void)
{
	return &homes[near__hint() % shard_count()];
}

/* ---- short lists ---- */

static bool is_block(uint64_t offset)
{
	return !near__list_is_empty(offset) && offset < near__heap.size;
}

/* The offset of the block after *n blocks of the list, which has at least one; *last becomes the
 * one before it. *n becomes what is left of it if the list ends earlier. The walk ends at a damaged
 * link, which is returned. It stays as it is, and is reported when its block is taken. */
static uint64_t list_after(uint64_t list, unsigned *n, uint64_t *last)
{
	uint64_t next;

	do {
		*last = list;
		next = near__unlink(list, *near__list_block(list));
		list = next;
	} while (--*n && is_block(next));
	return next;
}

static void set_link(uint64_t block, uint64_t next)
{
	*near__list_block(block) = near__link(block, next);
}

/* ---- with the lock ---- */

static uint64_t *last_list(struct shard *s, unsigned class)
{
	return &s->lists[near__sizes[class].row + s->stacks[class].lists - 1];
}

static void pop_last(struct shard *s, struct stack *k, unsigned class)
{
	k->lists--;
	k->last = near__sizes[class].batch;
	k->fewest = k->lists < k->fewest ? k->lists : k->fewest;
	s->held -= near__batch_bytes(class);
}

static uint64_t take_locked(struct shard *s, unsigned class, unsigned most)
{
	struct stack *k = &s->stacks[class];
	uint64_t list, rest, last;
	unsigned n = most;

	if (!k->lists)
		return NEAR__EMPTY_LIST;
	list = *last_list(s, class);
	k->refills++;
	rest = most < k->last ? list_after(list, &n, &last) : NEAR__EMPTY_LIST;
	if (is_block(rest)) {
		set_link(last, NEAR__EMPTY_LIST);
		*last_list(s, class) = rest;
		k->last = (uint16_t)(k->last - most);
	} else {
		pop_last(s, k, class);
	}
	return list;
}

/* What the shard may hold in all, and of a class. */
static bool has_room(const struct shard *s, const struct stack *k, unsigned class)
{
	return k->lists < near__transfer_most(class) &&
	       s->held + near__batch_bytes(class) <= near__malloc_conf.cache / shard_count();
}

/* n blocks, of which the last one is at `last`: that is known of short lists alone. */
static bool give_locked(struct shard *s, unsigned class, uint64_t list, unsigned n, uint64_t last)
{
	struct stack *k = &s->stacks[class];

	if (k->lists && k->last + n <= near__sizes[class].batch) {
		set_link(last, *last_list(s, class));
		*last_list(s, class) = list;
		k->last = (uint16_t)(k->last + n);
		k->spills++;
		return true;
	}
	if (!has_room(s, k, class))
		return false;
	k->spills++;
	k->lists++;
	k->last = (uint16_t)n;
	*last_list(s, class) = list;
	s->held += near__batch_bytes(class);
	return true;
}

static struct shard *shard_begin(struct home *h)
{
	uint32_t number = h->shard ? 0 : near__meta_alloc(sizeof(struct shard));

	/* Release: pairs with the acquire in near__shards_decay. */
	if (number)
		__atomic_store_n(&h->shard, near__meta_at(number), __ATOMIC_RELEASE);
	return h->shard;
}

/* ---- take, give ---- */

uint64_t near__shard_take(unsigned class, unsigned most)
{
	uint64_t list = NEAR__EMPTY_LIST, rest, last;
	struct home *h = home_now();

	if (near__heap.caches)
		return near__central_take(class, most);
	near__heap_lock(&h->lock);
	if (h->shard)
		list = take_locked(h->shard, class, most);
	near_lock_unlock(&h->lock);
	if (!near__list_is_empty(list))
		return list;
	list = near__central_take(class, most);
	if (near__list_is_empty(list) || most >= near__sizes[class].batch)
		return list;
	rest = list_after(list, &most, &last);
	if (is_block(rest)) {
		set_link(last, NEAR__EMPTY_LIST);
		near__shard_give(class, rest, true);
	}
	return list;
}

void near__shard_give(unsigned class, uint64_t list, bool is_short)
{
	unsigned n = near__sizes[class].batch, left = n;
	struct home *h = home_now();
	uint64_t last = 0;
	bool kept;

	list = near__central_send_home(class, list);
	if (near__list_is_empty(list))
		return;
	if (near__heap.caches) {
		near__central_give(class, list);
		return;
	}
	if (is_short && near__list_is_empty(list_after(list, &left, &last)))
		n -= left;
	near__heap_lock(&h->lock);
	kept = shard_begin(h) && give_locked(h->shard, class, list, n, last);
	near_lock_unlock(&h->lock);
	if (!kept)
		near__central_give(class, list);
}

/* ---- decay ---- */

/* Takes the lists that were given first: all, or half of those that were not needed, rounded up. */
static unsigned take_oldest(struct home *h, unsigned class, bool all, uint64_t *lists)
{
	uint64_t *row = &h->shard->lists[near__sizes[class].row];
	struct stack *k = &h->shard->stacks[class];
	unsigned n;

	near__heap_lock(&h->lock);
	n = all ? k->lists : (k->fewest + 1u) / 2;
	for (unsigned i = 0; i < k->lists; i++)
		(i < n ? lists : row - n)[i] = row[i];
	k->lists = k->fewest = (uint16_t)(k->lists - n);
	h->shard->held -= n * near__batch_bytes(class);
	near_lock_unlock(&h->lock);
	return n;
}

static void give_oldest(struct home *h, bool all)
{
	uint64_t lists[NEAR__MOST_LISTS];

	for (unsigned class = 1; class <= NEAR__SIZES; class ++) {
		unsigned n = take_oldest(h, class, all, lists);

		for (unsigned i = 0; i < n; i++)
			near__central_give(class, lists[i]);
	}
}

/* One thread wins each step of a shard; nothing else is ordered by it. */
static bool is_due(struct home *h, uint64_t now)
{
	struct shard *s = __atomic_load_n(&h->shard, __ATOMIC_ACQUIRE);
	uint64_t due = s ? __atomic_load_n(&s->due, __ATOMIC_RELAXED) : UINT64_MAX;

	return now >= due && __atomic_compare_exchange_n(&s->due, &due, now + STEP_MS, false,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void near__shards_decay(uint64_t now)
{
	for (unsigned i = 0; i < shard_count(); i++)
		if (is_due(&homes[i], now))
			give_oldest(&homes[i], false);
}

void near__shards_empty(void)
{
	for (unsigned i = 0; i < shard_count(); i++)
		if (__atomic_load_n(&homes[i].shard, __ATOMIC_ACQUIRE))
			give_oldest(&homes[i], true);
}

void near__shards_stats(unsigned class, uint64_t *refills, uint64_t *spills)
{
	*refills = *spills = 0;
	for (unsigned i = 0; i < shard_count(); i++) {
		near__heap_lock(&homes[i].lock);
		if (homes[i].shard) {
			*refills += homes[i].shard->stacks[class].refills;
			*spills += homes[i].shard->stacks[class].spills;
		}
		near_lock_unlock(&homes[i].lock);
	}
}

void near__shards_fork(near__fork_step *step)
{
	for (unsigned i = 0; i < shard_count(); i++)
		step(&homes[i].lock);
}
