/* SPDX-License-Identifier: MIT */
/* pool: objects of one type for reuse: got and put by one thread; got by one and put by another;
 * and a small server, whose requests take some objects each.
 *
 * The rows between the mutex and ours are what programs do instead. TBB's allocator and glibc's
 * take any size; the thread-local list shares nothing, and never gives back what other threads put.
 *
 * Source: the pools of Bonwick and Adams' "Magazines and Vmem" (2001); the server is the case for
 * which rseq was introduced: an allocator's per-CPU pools, and the response time (2018).
 */
#include "bench.h"

#include <nearcpu/histogram.h>
#include <nearcpu/malloc.h>
#include <nearcpu/pool.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#ifdef HAVE_CK
#include <ck_stack.h>
#endif

#define BYTES 96 /* of an object, besides the links of lists */
#define PASSED 512
#define BATCH 64

struct item {
	_Alignas(16) char content[BYTES];
	struct item *next;
#ifdef HAVE_CK
	ck_stack_entry_t entry;
#endif
};

#define INLINE static inline __attribute__((always_inline))

static struct item *fresh(void)
{
	return aligned_alloc(BENCH_LINE,
			     (sizeof(struct item) + BENCH_LINE - 1) & ~(BENCH_LINE - 1u));
}

/* ---- one list ---- */

static _Alignas(BENCH_LINE) pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct item *first;

INLINE struct item *get_mutex(void)
{
	struct item *item;

	pthread_mutex_lock(&lock);
	item = first;
	if (item)
		first = item->next;
	pthread_mutex_unlock(&lock);
	return item ? item : fresh();
}

INLINE void put_mutex(struct item *item)
{
	pthread_mutex_lock(&lock);
	item->next = first;
	first = item;
	pthread_mutex_unlock(&lock);
}

#ifdef HAVE_CK
static ck_stack_t ck_stack __attribute__((aligned(BENCH_LINE))) = CK_STACK_INITIALIZER;

INLINE struct item *get_ck(void)
{
	ck_stack_entry_t *entry = ck_stack_pop_mpmc(&ck_stack); /* NOLINT: ck's own casts */

	return entry ? (struct item *)((char *)entry - offsetof(struct item, entry)) : fresh();
}

INLINE void put_ck(struct item *item) { ck_stack_push_mpmc(&ck_stack, &item->entry); }
#endif

/* ---- lists of threads ---- */

static __thread struct item *local_first;
static __thread unsigned local_count;

INLINE struct item *get_local(void)
{
	struct item *item = local_first;

	if (__builtin_expect(!item, 0))
		return fresh();
	local_first = item->next;
	return item;
}

INLINE void put_local(struct item *item)
{
	item->next = local_first;
	local_first = item;
}

/* Moves a batch from the central list, as it is linked; the walk finds its end. */
static __attribute__((noinline)) void refill(void)
{
	pthread_mutex_lock(&lock);
	for (; local_count < BATCH && first; local_count++) {
		struct item *item = first;

		first = item->next;
		put_local(item);
	}
	pthread_mutex_unlock(&lock);
	for (; local_count < BATCH; local_count++)
		put_local(fresh());
}

static __attribute__((noinline)) void spill(void)
{
	struct item *chain = local_first, *last = chain;

	for (unsigned i = 1; i < BATCH; i++)
		last = last->next;
	local_first = last->next;
	local_count -= BATCH;
	pthread_mutex_lock(&lock);
	last->next = first;
	first = chain;
	pthread_mutex_unlock(&lock);
}

INLINE struct item *get_cache(void)
{
	if (__builtin_expect(!local_count, 0))
		refill();
	local_count--;
	return get_local();
}

INLINE void put_cache(struct item *item)
{
	put_local(item);
	if (__builtin_expect(++local_count == 2 * BATCH, 0))
		spill();
}

/* When the thread ends: else nothing would point to its list. */
static void leave_list(void)
{
	struct item *last = local_first;

	if (!last)
		return;
	while (last->next)
		last = last->next;
	pthread_mutex_lock(&lock);
	last->next = first;
	first = local_first;
	pthread_mutex_unlock(&lock);
	local_first = NULL;
	local_count = 0;
}

/* ---- allocators ---- */

static void *(*scalable_malloc)(size_t n);
static void (*scalable_free)(void *p);

static const char *no_tbb(void)
{
	void *tbb = dlopen("libtbbmalloc.so.2", RTLD_NOW);

	if (!tbb)
		return "not installed (libtbbmalloc2)";
	scalable_malloc = (void *(*)(size_t))dlsym(tbb, "scalable_malloc");
	scalable_free = (void (*)(void *))dlsym(tbb, "scalable_free");
	return scalable_malloc && scalable_free ? NULL : "without scalable_malloc";
}

#define ALLOCATOR(kind, allocate, release)                                                         \
	INLINE struct item *get_##kind(void) { return allocate(sizeof(struct item)); }             \
	INLINE void put_##kind(struct item *item) { release(item); }

ALLOCATOR(tbb, scalable_malloc, scalable_free)
ALLOCATOR(glibc, malloc, free)
ALLOCATOR(malloc, near_malloc, near_free)

/* ---- ours ---- */

static struct near_pool pool;

static int setup_near(struct bench_run *run)
{
	(void)run;
	return near_pool_init(&pool, sizeof(struct item), NULL);
}

INLINE struct item *get_near(void) { return near_pool_get(&pool); }
INLINE void put_near(struct item *item) { near_pool_put(&pool, item); }

static const char *check_near(struct bench_run *run)
{
	struct near_pool_stats s;

	(void)run;
	near_pool_stats(&pool, &s, sizeof(s));
	return s.idle > s.max_idle ? "more than the cap is idle" : bench_compare(s.idle, s.objects);
}

/* ---- got and put ---- */

INLINE void get_and_put(struct bench_thread *t, struct item *(*get)(void),
			void (*put)(struct item *))
{
	for (uint64_t i = 0; i < t->iterations; i++) {
		struct item *item = get();

		BENCH_USE(item);
		BENCH_BARRIER();
		put(item);
		BENCH_BARRIER();
	}
	leave_list();
}

/* ---- passed on ---- */

/* A thread gets PASSED objects, writes to them, passes them to the other's inbox when that is
 * empty, and puts those that the other one wrote to. Two arrays take turns. */
static struct inbox {
	_Alignas(BENCH_LINE) _Atomic(struct item **) items;
} inboxes[BENCH_MAX_THREADS];

INLINE void pass_items(struct inbox *to, struct item **items, struct item *(*get)(void))
{
	for (unsigned k = 0; k < PASSED; k++) {
		items[k] = get();
		items[k]->content[0] = (char)k;
	}
	/* acquire pairs with the store of NULL: the other has read the array before. */
	while (atomic_load_explicit(&to->items, memory_order_acquire))
		sched_yield();
	/* release pairs with the acquire below: the objects are seen as written. */
	atomic_store_explicit(&to->items, items, memory_order_release);
}

INLINE void take_items(struct inbox *own, void (*put)(struct item *))
{
	struct item **items;

	while (!(items = atomic_load_explicit(&own->items, memory_order_acquire)))
		sched_yield();
	for (unsigned k = 0; k < PASSED; k++) {
		BENCH_USE((unsigned)items[k]->content[0]);
		put(items[k]);
	}
	atomic_store_explicit(&own->items, NULL, memory_order_release);
}

INLINE void pass_on(struct bench_thread *t, struct item *(*get)(void), void (*put)(struct item *),
		    bool gets, bool puts)
{
	static __thread struct item *arrays[2][PASSED];
	static __thread unsigned turn;

	for (uint64_t i = 0; i < t->iterations; i += PASSED) {
		if (gets)
			pass_items(&inboxes[t->index ^ 1], arrays[turn++ % 2], get);
		if (puts)
			take_items(&inboxes[t->index], put);
	}
	/* The arrays end with the thread. Acquire: the other one has read them. */
	while (gets && atomic_load_explicit(&inboxes[t->index ^ 1].items, memory_order_acquire))
		sched_yield();
	leave_list();
}

#define WAYS(kind)                                                                                 \
	static void work_##kind(struct bench_thread *t)                                            \
	{                                                                                          \
		get_and_put(t, get_##kind, put_##kind);                                            \
	}                                                                                          \
	static void pass_##kind(struct bench_thread *t)                                            \
	{                                                                                          \
		pass_on(t, get_##kind, put_##kind, true, true);                                    \
	}                                                                                          \
	static void flow_##kind(struct bench_thread *t)                                            \
	{                                                                                          \
		pass_on(t, get_##kind, put_##kind, t->index == 0, t->index == 1);                  \
	}

WAYS(mutex)
WAYS(cache)
WAYS(tbb)
WAYS(glibc)
WAYS(malloc)
WAYS(near)
static void work_local(struct bench_thread *t) { get_and_put(t, get_local, put_local); }
#ifdef HAVE_CK
WAYS(ck)
#define NO_CK NULL
#else
BENCH_MISSING(no_ck, "built without ck (libck-dev), or ck has no such stack for this CPU")
#define NO_CK no_ck
#define work_ck NULL
#define pass_ck NULL
#define flow_ck NULL
#endif

#define OURS(how) .setup = setup_near, .work = how##_near, .check = check_near
#define ROWS(how)                                                                                  \
	{"mutex", "mutexed list", .work = how##_mutex},                                            \
		{"ck", "lockless list, ck_stack", .missing = NO_CK, .work = how##_ck},             \
		{"cache", "thread-local, central list", .work = how##_cache},                      \
		{"glibc", "malloc, glibc", .work = how##_glibc},                                   \
		{"tbb", "scalable_malloc, TBB", .missing = no_tbb, .work = how##_tbb},             \
		{"near", "near_pool", BENCH_LIVE, OURS(how)},                                      \
		{"near-off", "near_pool, rseq off", BENCH_OFF, OURS(how)},                         \
	{                                                                                          \
		"malloc", "near_malloc", BENCH_OURS, .work = how##_malloc                          \
	}

static const struct bench_row rows[] = {
	ROWS(work),
	{"local", "thread-local list", BENCH_YARDSTICK, .work = work_local},
};

static const struct bench_figure figures[] = {
	{"a get and put against a thread-local list", "near", "local", .goal = 1.3},
	{"a get and put against one mutexed list", "near", "mutex", .goal = 1.0 / 20, .from = 2},
};

BENCH(bench_pool, "pool", "same", "Objects of one type", "a get and put",
      "Every thread gets an object and puts it back. ", rows, .figures = figures,
      .figure_count = BENCH_COUNT(figures), .core = true);

static const struct bench_row passed_rows[] = {ROWS(pass)};
static const struct bench_row flow_rows[] = {ROWS(flow)};

static const struct bench_figure passed_figures[] = {
	{"against a thread-local cache with a central list", "near", "cache", .goal = .7},
};

#define PASSES(word, all, what, how)                                                               \
	BENCH_TABLE("pool", word, what, "a get and put", how, all, BENCH_BOUNDS(passed_figures),   \
		    .threads = 2, .fixed_threads = true)

const struct bench bench_pool_passed = PASSES(
	"passed", passed_rows, "Objects of one type, put by another thread",
	"Two threads: each gets 512 objects, writes to each, and puts 512 that the other one got "
	"and wrote to. ");
const struct bench bench_pool_flow =
	PASSES("one-way", flow_rows, "Objects of one type, got by one thread and put by another",
	       "One of two threads gets 512 objects at a time and writes to each, the other one "
	       "puts them. An operation is a get or a put. ");
