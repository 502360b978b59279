/* SPDX-License-Identifier: MIT */
/* The thread cache: for threads that have no slot.
 *
 * In a process without sequences each thread has a list of each class. An empty one is exchanged
 * for a list of the CPU's shard (shard.c), a full one goes there. The thread gives its lists back
 * when it ends.
 *
 * A list begins short, and may become twice as long each time that it is empty or full, up to a
 * batch. Lists get shorter as the number of threads grows: many idle threads then hold little
 * memory, which no other thread can take. The lists of a class together have about 1/SHARE of the
 * setting malloc_cache, or LEAST_BYTES for each thread. A thread applies its limit when a list is
 * empty or full.
 *
 * In a process with sequences, few threads are here: the child of a vfork, or a thread that could
 * not be registered. These share lists under a lock. */
#define _GNU_SOURCE
#include <pthread.h>

#include "malloc/base/malloc_conf.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/cache/thread_cache.h"
#include "malloc/central/central.h"

#define SHARE 64
#define LEAST_BYTES 256
#define FIRST_BYTES 2048 /* of a list at first, besides one block */

__thread struct near__local *near__local;
static __thread bool shares __attribute__((tls_model("initial-exec")));
static struct near__local shared; /* also for threads that end */
static uint32_t spare;            /* those of threads that have ended */
static uint32_t chain;            /* all but `shared`; only grows */
static uint64_t threads;          /* threads that have one */
static struct near_lock lock;
static pthread_key_t key;
static bool has_key;

/* ---- a thread's lists ---- */

/* Blocks that a thread's list may have; 0: a thread keeps none. Relaxed: the number of threads is
 * a hint. */
static unsigned most_blocks(unsigned class)
{
	uint64_t n = __atomic_load_n(&threads, __ATOMIC_RELAXED);
	uint64_t bytes = near__malloc_conf.cache / SHARE / (n ? n : 1);
	unsigned batch = near__central_batch(class);

	n = (bytes < LEAST_BYTES ? LEAST_BYTES : bytes) / near__sizes[class].size;
	return n < batch ? (unsigned)n : batch;
}

/* A list was empty or full. */
static unsigned grow_limit(struct near__local *l, unsigned class)
{
	unsigned limit = l->limits[class] * 2u, most = most_blocks(class);

	if (!limit)
		limit = 1 + FIRST_BYTES / near__sizes[class].size;
	return l->limits[class] = (uint8_t)(limit < most ? limit : most);
}

static void set_room(struct near__local *l, unsigned class, unsigned room)
{
	struct near__local_list *e = &l->lists[class];

	__atomic_store_n(&l->deltas[class], l->deltas[class] + e->room - (int64_t)room,
			 __ATOMIC_RELAXED);
	near__local_count(e, (uint64_t)room - e->room);
}

static void give_lists(struct near__local *l)
{
	for (unsigned c = 1; c <= NEAR__SIZES; c++) {
		uint64_t list = l->lists[c].list;

		if (near__list_is_empty(list))
			continue;
		l->lists[c].list = NEAR__EMPTY_LIST;
		set_room(l, c, 0);
		near__shard_give(c, list, true);
	}
}

/* Later destructors of this thread use the shared lists. */
static void at_thread_exit(void *local)
{
	struct near__local *l = local;

	near__local = NULL;
	shares = true;
	give_lists(l);
	near_lock_lock(&lock);
	l->next = spare;
	spare = l->number;
	near_lock_unlock(&lock);
	__atomic_fetch_sub(&threads, 1, __ATOMIC_RELAXED); /* a statistic */
}

/* Release: a reader that finds it finds its content. */
static void enter_chain(struct near__local *l, uint32_t number)
{
	l->number = number;
	l->chain = __atomic_load_n(&chain, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&chain, &l->chain, number, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

static uint32_t take_spare(void)
{
	uint32_t number;

	near_lock_lock(&lock);
	number = spare;
	if (number)
		spare = ((struct near__local *)near__meta_at(number))->next;
	near_lock_unlock(&lock);
	if (!number) {
		number = near__meta_alloc(sizeof(struct near__local));
		if (number)
			enter_chain(near__meta_at(number), number);
	}
	return number;
}

/* pthread_setspecific may allocate: it then uses the shared lists. Without lists of its own the
 * thread stays with these. */
static void local_start(void)
{
	uint32_t number;

	shares = true;
	number = has_key ? take_spare() : 0;
	if (!number)
		return;
	__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
	if (pthread_setspecific(key, near__meta_at(number))) {
		at_thread_exit(near__meta_at(number));
		return;
	}
	shares = false;
	near__local = near__meta_at(number);
}

/* ---- slow paths ---- */

static void *alloc_from(struct near__local *l, unsigned class)
{
	struct near__local_list *e = &l->lists[class];
	unsigned limit;
	void *p;

	if (!near__list_is_empty(e->list))
		return near__local_take(e);
	limit = grow_limit(l, class);
	e->list = near__shard_take(class, limit ? limit : 1);
	set_room(l, class, 0);
	if (near__list_is_empty(e->list))
		return NULL;
	__atomic_store_n(&l->missed[class], l->missed[class] + 1, __ATOMIC_RELAXED);
	p = near__local_take(e);
	if (!limit) /* the block leaves no room */
		set_room(l, class, 0);
	return p;
}

/* The list is full, or the class was not used yet. */
static void local_make_room(struct near__local *l, unsigned class, unsigned limit)
{
	uint64_t list = l->lists[class].list;

	l->lists[class].list = NEAR__EMPTY_LIST;
	set_room(l, class, limit);
	near__shard_give(class, list, limit < near__sizes[class].batch);
}

/* Of a class of which the thread keeps none. */
static void give_one(struct near__local *l, unsigned class, uint64_t block)
{
	uint64_t list = NEAR__EMPTY_LIST;

	near__list_push(&list, block);
	__atomic_store_n(&l->deltas[class], l->deltas[class] - 1, __ATOMIC_RELAXED);
	near__shard_give(class, list, true);
}

static void free_to(struct near__local *l, unsigned class, uint64_t block)
{
	struct near__local_list *e = &l->lists[class];

	if (e->list == block)
		near__heap_misuse("double free", near__list_block(block));
	if (!e->room) {
		unsigned limit = grow_limit(l, class);

		local_make_room(l, class, limit);
		near__refuse_freed(class, block); /* the list that left may have contained it */
		if (!limit) {
			give_one(l, class, block);
			return;
		}
	}
	near__local_put(e, block);
}

/* The thread's own lists, or the shared ones, with their lock. */
static struct near__local *lists_begin(struct near__deferred *misuse)
{
	if (NEAR__UNLIKELY(!near__local) && !shares)
		local_start();
	if (NEAR__LIKELY(near__local != NULL))
		return near__local;
	near__defer_begin(misuse);
	near_lock_lock(&lock);
	return &shared;
}

static void lists_end(const struct near__local *l, const struct near__deferred *misuse)
{
	if (NEAR__LIKELY(l != &shared))
		return;
	near_lock_unlock(&lock);
	near__defer_end(misuse);
}

void *near__thread_cache_alloc(unsigned class)
{
	struct near__deferred misuse;
	struct near__local *l = lists_begin(&misuse);
	void *p = alloc_from(l, class);

	lists_end(l, &misuse);
	return p;
}

void near__thread_cache_free(unsigned class, uint64_t block)
{
	struct near__deferred misuse;
	struct near__local *l = lists_begin(&misuse);

	free_to(l, class, block);
	lists_end(l, &misuse);
}

void near__thread_cache_empty(void)
{
	struct near__deferred misuse;

	if (near__local)
		give_lists(near__local);
	near__defer_begin(&misuse);
	near_lock_lock(&lock);
	give_lists(&shared);
	near_lock_unlock(&lock);
	near__defer_end(&misuse);
}

/* Before the heap is ready: threads find the key after an acquire of that. */
void near__thread_cache_init(void)
{
	if (!near__heap.caches) /* a program has few keys */
		has_key = pthread_key_create(&key, at_thread_exit) == 0;
}

static void add_stats(struct near__thread_cache_stats *sum, const struct near__local *l,
		      unsigned class)
{
	uint64_t count = __atomic_load_n(&l->lists[class].count, __ATOMIC_RELAXED);
	uint64_t taken = count >> NEAR__LOCAL_SHIFT, room = count & (NEAR__LOCAL_TAKEN - 1);

	sum->taken += taken;
	sum->missed += __atomic_load_n(&l->missed[class], __ATOMIC_RELAXED);
	sum->in_use += (int64_t)room + __atomic_load_n(&l->deltas[class], __ATOMIC_RELAXED);
}

void near__thread_cache_stats(unsigned class, struct near__thread_cache_stats *own,
			      struct near__thread_cache_stats *others)
{
	uint32_t number = __atomic_load_n(&chain, __ATOMIC_ACQUIRE);

	*own = *others = (struct near__thread_cache_stats){0};
	near_lock_lock(&lock);
	add_stats(others, &shared, class);
	others->cached = near__list_length(shared.lists[class].list);
	near_lock_unlock(&lock);
	while (number) {
		const struct near__local *l = near__meta_at(number);

		add_stats(own, l, class);
		number = l->chain;
	}
}

uint64_t near__thread_cache_count(void)
{
	return __atomic_load_n(&threads, __ATOMIC_RELAXED);
}

void near__thread_cache_fork(near__fork_step *step)
{
	step(&lock);
	near__shards_fork(step);
}

void near__thread_cache_fork_child(void)
{
	threads = near__local != NULL;
}
