/* SPDX-License-Identifier: MIT */
/* The thread cache: for threads that have no slot.
 *
 * In a process without sequences each thread has lists of its own, which it gives back when it
 * ends. In a process with sequences, few threads use it, and for a short time: the child of a
 * vfork, or a thread whose registration has ended. These share lists under a lock. */
#define _GNU_SOURCE
#include <pthread.h>

#include "malloc/cache/cache.h"
#include "malloc/central/central.h"

struct local {
	uint64_t lists[NEAR__SIZES + 1];
	uint8_t counts[NEAR__SIZES + 1]; /* blocks that came since the list was empty */
	uint32_t number, next;
	uint32_t chain; /* the next of all */
	struct near__thread_cache_stats stats[NEAR__SIZES + 1];
};

static __thread struct local *mine __attribute__((tls_model("initial-exec")));
static struct local shared; /* also for threads that end */
static uint32_t spare;      /* those of threads that have ended */
static uint32_t chain;      /* all but `shared`; only grows */
static uint64_t threads;    /* threads that have one */
static struct near_lock lock;
static pthread_key_t key;
static bool has_key;

static void give_lists(struct local *l)
{
	for (unsigned c = 1; c <= NEAR__SIZES; c++) {
		uint64_t list = l->lists[c];

		l->lists[c] = 0;
		l->counts[c] = 0;
		if (!near__list_is_empty(list))
			near__central_give(c, list);
	}
}

/* Later destructors of this thread use the shared lists. */
static void at_thread_exit(void *local)
{
	struct local *l = local;

	mine = &shared;
	give_lists(l);
	near_lock_lock(&lock);
	l->next = spare;
	spare = l->number;
	near_lock_unlock(&lock);
	__atomic_fetch_sub(&threads, 1, __ATOMIC_RELAXED); /* a statistic */
}

/* Release: a reader that finds it finds its content. */
static void enter_chain(struct local *l, uint32_t number)
{
	l->number = number;
	l->chain = __atomic_load_n(&chain, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&chain, &l->chain, number, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

/* pthread_setspecific may allocate: it then uses the shared lists. */
static struct local *start(void)
{
	struct local *l;
	uint32_t number;

	mine = &shared;
	if (!has_key)
		return mine;
	near_lock_lock(&lock);
	number = spare;
	if (number)
		spare = ((struct local *)near__meta_at(number))->next;
	near_lock_unlock(&lock);
	if (!number) {
		number = near__meta_alloc(sizeof(*l));
		if (number)
			enter_chain(near__meta_at(number), number);
	}
	if (!number)
		return mine;
	__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
	l = near__meta_at(number);
	if (pthread_setspecific(key, l)) {
		at_thread_exit(l);
		return mine;
	}
	return mine = l;
}

/* Other threads only read it: no atomic addition is needed. */
static void tally(uint64_t *count)
{
	__atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
}

static void *take(struct local *l, unsigned class)
{
	l->counts[class] -= l->counts[class] != 0;
	tally(&l->stats[class].taken);
	return near__list_take(&l->lists[class]);
}

void *near__thread_cache_take(unsigned class)
{
	struct local *l = mine;

	if (!l || l == &shared || near__list_is_empty(l->lists[class]))
		return NULL;
	return take(l, class);
}

/* Threads are many, and large blocks matter in each. */
static unsigned most_blocks(unsigned class)
{
	return near__sizes[class].size < 8192 ? near__sizes[class].batch : 2;
}

static void *alloc_from(struct local *l, unsigned class)
{
	if (near__list_is_empty(l->lists[class])) {
		l->lists[class] = near__central_take(class);
		l->counts[class] = (uint8_t)most_blocks(class);
		if (near__list_is_empty(l->lists[class]))
			return NULL;
		tally(&l->stats[class].missed);
	}
	return take(l, class);
}

static void put(struct local *l, unsigned class, void *p)
{
	near__list_put(&l->lists[class], p);
	tally(&l->stats[class].freed);
	l->counts[class]++;
}

bool near__thread_cache_put(unsigned class, void *p)
{
	struct local *l = mine;

	if (!l || l == &shared || l->counts[class] == most_blocks(class) ||
	    l->lists[class] < NEAR__EMPTY_LIST || l->lists[class] == near__offset_of(p))
		return false;
	put(l, class, p);
	return true;
}

static void free_to(struct local *l, unsigned class, void *p)
{
	if (l->lists[class] == near__offset_of(p))
		near__heap_die("double free", p);
	if (l->counts[class] == most_blocks(class) && !near__list_is_empty(l->lists[class])) {
		near__central_give(class, l->lists[class]);
		l->lists[class] = NEAR__EMPTY_LIST;
		l->counts[class] = 0;
		near__refuse_freed(class, p); /* the list that left may have contained it */
	}
	if (near__list_is_empty(l->lists[class]))
		l->lists[class] = NEAR__EMPTY_LIST;
	put(l, class, p);
}

void *near__thread_cache_alloc(unsigned class)
{
	struct local *l = mine ? mine : start();
	void *p;

	if (NEAR__LIKELY(l != &shared))
		return alloc_from(l, class);
	near_lock_lock(&lock);
	p = alloc_from(l, class);
	near_lock_unlock(&lock);
	return p;
}

void near__thread_cache_free(unsigned class, void *p)
{
	struct local *l = mine ? mine : start();

	if (NEAR__LIKELY(l != &shared)) {
		free_to(l, class, p);
		return;
	}
	near_lock_lock(&lock);
	free_to(l, class, p);
	near_lock_unlock(&lock);
}

void near__thread_cache_init(void)
{
	if (!near__heap.caches) /* a program has few keys */
		has_key = pthread_key_create(&key, at_thread_exit) == 0;
}

static void add_stats(struct near__thread_cache_stats *sum,
		      const struct near__thread_cache_stats *of)
{
	sum->taken += __atomic_load_n(&of->taken, __ATOMIC_RELAXED);
	sum->missed += __atomic_load_n(&of->missed, __ATOMIC_RELAXED);
	sum->freed += __atomic_load_n(&of->freed, __ATOMIC_RELAXED);
}

void near__thread_cache_stats(unsigned class, struct near__thread_cache_stats *own,
			      struct near__thread_cache_stats *others)
{
	uint32_t number = __atomic_load_n(&chain, __ATOMIC_ACQUIRE);

	*own = *others = (struct near__thread_cache_stats){0, 0, 0};
	add_stats(others, &shared.stats[class]);
	while (number) {
		const struct local *l = near__meta_at(number);

		add_stats(own, &l->stats[class]);
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
}
