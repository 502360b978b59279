/* SPDX-License-Identifier: MIT */
/* list: pop an item from a free list that all threads share, and push it back.
 *
 * Each thread first puts ITEMS items in and holds at most one, so a list is empty for moments
 * only; the loop then tries again. Every item has a line of its own.
 *
 * Source: the free list of the rseq tutorial of cosmopolitan's author; the rows between the mutex
 * and ours are what programs do instead.
 */
#include "bench.h"

#include <nearcpu/rseq.h>
#include <nearcpu/stack.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#ifdef HAVE_CK
#include <ck_stack.h>
#endif

#define ITEMS 16

struct item {
	_Alignas(BENCH_LINE) struct near_stack_node node;
	struct item *next;
	_Atomic uint32_t next_index;
#ifdef HAVE_CK
	ck_stack_entry_t entry;
#endif
};

/* Item 0 is not used: as an index, 0 is the end of a list. */
static struct item *items;

BENCH_SETUP(setup_items,
	    (items = bench_alloc(run->threads * ITEMS + 1, sizeof(*items))) ? 0 : -ENOMEM)

/* Inlined with constant functions, so that each row is a loop without calls. */
#define INLINE static inline __attribute__((always_inline))

INLINE void pop_and_push(struct bench_thread *t, struct item *(*pop)(void),
			 void (*push)(struct item *))
{
	struct item *item;

	for (uint64_t i = 0; i < t->iterations; i++) {
		do
			item = pop();
		while (__builtin_expect(!item, 0));
		BENCH_BARRIER();
		push(item);
		BENCH_BARRIER();
	}
}

static void put_in(struct bench_thread *t, void (*push)(struct item *))
{
	for (unsigned i = 1; i <= ITEMS; i++)
		push(&items[t->index * ITEMS + i]);
}

/* The lists outlive the threads of a pilot, which has several rounds: the first one fills them. */
static void put_in_once(struct bench_thread *t, void (*push)(struct item *))
{
	if (!t->run->done)
		put_in(t, push);
}

/* Nothing lost, nothing twice. */
static const char *list_count(struct bench_run *run, struct item *(*pop)(void))
{
	uint64_t expected = (uint64_t)run->threads * ITEMS, found = 0;

	while (found <= expected && pop())
		found++;
	return bench_compare(found, expected);
}

#define LIST_ROW_COUNTED(kind, pop_to_count)                                                       \
	static void work_##kind(struct bench_thread *t)                                            \
	{                                                                                          \
		pop_and_push(t, pop_##kind, push_##kind);                                          \
	}                                                                                          \
	static const char *fill_##kind(struct bench_thread *t)                                     \
	{                                                                                          \
		put_in_once(t, push_##kind);                                                       \
		return NULL;                                                                       \
	}                                                                                          \
	static const char *check_##kind(struct bench_run *run)                                     \
	{                                                                                          \
		return list_count(run, pop_to_count);                                              \
	}
#define LIST_ROW(kind) LIST_ROW_COUNTED(kind, pop_##kind)
#define ROW_OF(kind) .prepare = fill_##kind, .work = work_##kind, .check = check_##kind

struct locked_list {
	_Alignas(BENCH_LINE) pthread_mutex_t lock;
	struct item *first;
};

static struct item *locked_pop(struct locked_list *list)
{
	struct item *item;

	pthread_mutex_lock(&list->lock);
	item = list->first;
	if (item)
		list->first = item->next;
	pthread_mutex_unlock(&list->lock);
	return item;
}

static void locked_push(struct locked_list *list, struct item *item)
{
	pthread_mutex_lock(&list->lock);
	item->next = list->first;
	list->first = item;
	pthread_mutex_unlock(&list->lock);
}

static struct locked_list locked = {.lock = PTHREAD_MUTEX_INITIALIZER};

INLINE struct item *pop_mutex(void) { return locked_pop(&locked); }
INLINE void push_mutex(struct item *item) { locked_push(&locked, item); }

LIST_ROW(mutex)

/* The index of the first item in the low half, a count of changes in the high half: a head that
 * went away and came back is seen by its count (the ABA problem). */
static _Alignas(BENCH_LINE) _Atomic uint64_t tagged_head;

#define TAG ((uint64_t)1 << 32)

INLINE struct item *pop_tagged(void)
{
	/* acquire pairs with the release in push: its stores to the item are visible. */
	uint64_t head = atomic_load_explicit(&tagged_head, memory_order_acquire), next;
	struct item *item;

	do {
		if (!(uint32_t)head)
			return NULL;
		item = &items[(uint32_t)head];
		/* relaxed: if another thread writes it concurrently, the tag has changed, and the
		 * exchange fails. */
		next = atomic_load_explicit(&item->next_index, memory_order_relaxed);
		next |= (head & ~(TAG - 1)) + TAG;
	} while (!atomic_compare_exchange_weak_explicit(
		&tagged_head, &head, next, memory_order_acquire, memory_order_acquire));
	return item;
}

INLINE void push_tagged(struct item *item)
{
	/* relaxed: nothing is read through it. */
	uint64_t head = atomic_load_explicit(&tagged_head, memory_order_relaxed), next;

	do {
		/* relaxed: published by the release below. */
		atomic_store_explicit(&item->next_index, (uint32_t)head, memory_order_relaxed);
		next = (uint64_t)(item - items) | ((head & ~(TAG - 1)) + TAG);
	} while (!atomic_compare_exchange_weak_explicit(
		&tagged_head, &head, next, memory_order_release, memory_order_relaxed));
}

LIST_ROW(tagged)

#ifdef HAVE_CK
static ck_stack_t ck_stack __attribute__((aligned(BENCH_LINE))) = CK_STACK_INITIALIZER;

INLINE struct item *pop_ck(void)
{
	ck_stack_entry_t *entry = ck_stack_pop_mpmc(&ck_stack); /* NOLINT: ck's own casts */

	return entry ? (struct item *)((char *)entry - offsetof(struct item, entry)) : NULL;
}

INLINE void push_ck(struct item *item) { ck_stack_push_mpmc(&ck_stack, &item->entry); }

LIST_ROW(ck)
#define CK_ROW .setup = setup_items, ROW_OF(ck)
#else
BENCH_MISSING(no_ck, "built without ck (libck-dev), or ck has no such stack for this CPU")
#define CK_ROW .missing = no_ck
#endif

static struct locked_list *shards;

static int setup_shards(struct bench_run *run)
{
	shards = bench_alloc(near_cpus(), sizeof(*shards));
	for (unsigned i = 0; shards && i < near_cpus(); i++)
		pthread_mutex_init(&shards[i].lock, NULL);
	return shards ? setup_items(run) : -ENOMEM;
}

static struct item *pop_other_shard(void)
{
	struct item *item = NULL;

	for (unsigned i = 0; i < near_cpus() && !item; i++)
		item = locked_pop(&shards[i]);
	return item;
}

INLINE struct item *pop_sharded(void)
{
	struct item *item = locked_pop(&shards[sched_getcpu()]);

	return __builtin_expect(!!item, 1) ? item : pop_other_shard();
}

INLINE void push_sharded(struct item *item) { locked_push(&shards[sched_getcpu()], item); }

LIST_ROW(sharded)

static struct near_stack stack;

static int setup_near(struct bench_run *run)
{
	int err = near_stack_init(&stack);

	return err ? err : setup_items(run);
}

INLINE struct item *pop_near(void) { return (struct item *)near_stack_pop(&stack); }
INLINE void push_near(struct item *item) { near_stack_push(&stack, &item->node); }

/* A pop may leave other slots' items where they are. */
static struct item *pop_near_anywhere(void) { return (struct item *)near_stack_steal(&stack); }

LIST_ROW_COUNTED(near, pop_near_anywhere)
#define NEAR_ROW .setup = setup_near, ROW_OF(near)

static __thread struct item *local_first;

INLINE struct item *pop_local(void)
{
	struct item *item = local_first;

	if (item)
		local_first = item->next;
	return item;
}

INLINE void push_local(struct item *item)
{
	item->next = local_first;
	local_first = item;
}

static void work_local(struct bench_thread *t) { pop_and_push(t, pop_local, push_local); }

static const char *fill_local(struct bench_thread *t)
{
	put_in(t, push_local);
	return NULL;
}

#define PEER_ROW(kind) .setup = setup_items, ROW_OF(kind)

static const struct bench_row rows[] = {
	{"mutex", "mutex, glibc", PEER_ROW(mutex)},
	{"tagged", "lockless, ABA tags", PEER_ROW(tagged)},
	{"ck", "lockless, ck_stack", CK_ROW},
	{"sharded", "mutexes by sched_getcpu", .setup = setup_shards, ROW_OF(sharded)},
	{"near-off", "nearcpu, rseq off", BENCH_OFF, NEAR_ROW},
	{"near", "nearcpu", BENCH_LIVE, NEAR_ROW},
	{"local", "thread-local list", BENCH_YARDSTICK, .setup = setup_items, .prepare = fill_local,
	 .work = work_local},
};

BENCH(bench_list, "list", NULL, "Free list", "a pop and push",
      "Every thread pops an item from a shared free list and pushes it back. The thread-local "
      "list shares nothing, so what one thread frees no other can use: a yardstick only.",
      rows,
      BENCH_FIGURES({"pop and push against the thread-local list", "near", "local", .goal = 1.3},
		    {"pop and push against one mutex", "near", "mutex", .goal = 1.0 / 6, .from = 1,
		     .to = 1},
		    {"pop and push against one mutex", "near", "mutex", .goal = 1.0 / 25,
		     .from = 2}),
      .core = true);
