/* SPDX-License-Identifier: MIT */
/* idspace: a worker acquires an id that no other has, and releases it, in one process and in memory
 * that processes share; or it hands the id to the worker that runs next on its thread.
 *
 * The targets are those of the source, where the scheduler has a cache per CPU because one bitmap
 * with atomic operations costs too much. The yardstick of the shared space is two compare-exchanges
 * on a line that no other thread uses: what a word that another process must be able to take back
 * costs at least.
 *
 * Source: Mathieu Desnoyers, "Restartable Sequences: Scheduler-Aware Scaling of Memory Use on
 * Many-Core Systems" (2022).
 */
#include "bench.h"

#include <nearcpu/idspace.h>
#include <nearcpu/region.h>
#include <nearcpu/shared_ids.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INLINE static inline __attribute__((always_inline))

#define WORDS 128 /* of 64 ids, as many as there can be threads */

/* ---- bitmaps: the lowest bit that is 0 ---- */

static _Alignas(BENCH_LINE) _Atomic uint64_t shared_bits[WORDS];

INLINE int take_atomic(void)
{
	for (int i = 0; i < WORDS; i++) {
		/* relaxed: the exchange below decides. */
		uint64_t bits = atomic_load_explicit(&shared_bits[i], memory_order_relaxed);

		while (~bits) {
			uint64_t bit = ~bits & (bits + 1);

			/* acquire pairs with the release below: what the id's data have. */
			bits = atomic_fetch_or_explicit(&shared_bits[i], bit, memory_order_acquire);
			if (!(bits & bit))
				return i * 64 + __builtin_ctzll(bit);
		}
	}
	abort();
}

INLINE void give_atomic(int id)
{
	atomic_fetch_and_explicit(&shared_bits[id / 64], ~(UINT64_C(1) << id % 64),
				  memory_order_release);
}

BENCH_CHECK(check_atomic, bench_compare(shared_bits[0], 0))

static struct {
	_Alignas(BENCH_LINE) pthread_mutex_t lock;
	uint64_t bits[WORDS];
} locked;

INLINE int take_mutex(void)
{
	int i = 0, id;

	/* EOWNERDEAD cannot be: nobody is killed. */
	pthread_mutex_lock(&locked.lock);
	while (!~locked.bits[i])
		if (++i == WORDS)
			abort();
	id = i * 64 + __builtin_ctzll(~locked.bits[i]);
	locked.bits[i] |= locked.bits[i] + 1;
	pthread_mutex_unlock(&locked.lock);
	return id;
}

INLINE void give_mutex(int id)
{
	pthread_mutex_lock(&locked.lock);
	locked.bits[id / 64] &= ~(UINT64_C(1) << id % 64);
	pthread_mutex_unlock(&locked.lock);
}

BENCH_SETUP(setup_mutex, -pthread_mutex_init(&locked.lock, NULL))

/* As processes would need it that may be killed. */
static int setup_robust(struct bench_run *run)
{
	pthread_mutexattr_t attributes;

	(void)run;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	return -pthread_mutex_init(&locked.lock, &attributes);
}

BENCH_CHECK(check_mutex, bench_compare(locked.bits[0], 0))

/* ---- yardsticks ---- */

static __thread struct {
	_Alignas(BENCH_LINE) _Atomic uint64_t owner;
} own;

/* The tag depends on the run, as that of a worker does. */
static void work_pair(struct bench_thread *t)
{
	uint64_t tag = (uint64_t)(uintptr_t)t;

	for (uint64_t i = 0; i < t->iterations; i++) {
		uint64_t none = 0, held = tag;

		if (!atomic_compare_exchange_strong_explicit(
			    &own.owner, &none, tag, memory_order_acquire, memory_order_relaxed) ||
		    !atomic_compare_exchange_strong_explicit(
			    &own.owner, &held, 0, memory_order_release, memory_order_relaxed))
			abort();
	}
}

BENCH_WORK(work_gettid, BENCH_USE(syscall(SYS_gettid)))

static __thread int local_id;

BENCH_WORK(work_local, BENCH_USE(local_id); BENCH_BARRIER())

/* ---- ours, in one process ---- */

static struct near_idspace space;

static int setup_near(struct bench_run *run)
{
	/* More than threads, so that the caches of all slots have room. */
	const struct near_idspace_options o = {.ids = 2 * BENCH_MAX_THREADS, .size = 64};

	(void)run;
	return near_idspace_init(&space, &o);
}

INLINE int take_near(struct near_worker *w) { return near_idspace_acquire(&space, w); }
INLINE void give_near(struct near_worker *w) { near_idspace_release(&space, w); }

INLINE int pass_near(struct near_worker *from, struct near_worker *to)
{
	return near_idspace_hand_over(&space, from, to);
}

static struct near_idspace_stats stats(void)
{
	struct near_idspace_stats s;

	near_idspace_stats(&space, &s, sizeof(s));
	return s;
}

/* Each id was acquired from somewhere, once, and only caches still have some. */
static const char *check_near(struct bench_run *run)
{
	struct near_idspace_stats s = stats();

	if (s.used != s.cached)
		return "wrong result: an id is in use after all were released";
	return bench_compare(s.single + s.hits + s.allocations + s.migrations, run->done);
}

BENCH_CHECK(check_passed, bench_compare(stats().transfers, run->done))

/* ---- ours, in a region ---- */

static struct near_region region;
static struct near_shared_ids shared;

static int setup_shared(struct bench_run *run)
{
	const struct near_region_options r = {.common_size = 4u << 20};
	const struct near_shared_ids_options o = {.ids = 2 * BENCH_MAX_THREADS};
	int err = near_region_open(&region, NULL, &r);

	(void)run;
	if (!err)
		err = near_shared_ids_open(&shared, &region, "workers", NULL, &o);
	if (err)
		fprintf(stderr, "near_shared_ids: %s\n",
			near_shared_ids_error(&shared) ?: strerror(-err));
	return err;
}

INLINE int take_shared(struct near_worker *w) { return near_shared_ids_acquire(&shared, w); }
INLINE void give_shared(struct near_worker *w) { near_shared_ids_release(&shared, w); }

INLINE int pass_shared(struct near_worker *from, struct near_worker *to)
{
	return near_shared_ids_hand_over(&shared, from, to);
}

static struct near_shared_ids_stats shared_stats(void)
{
	struct near_shared_ids_stats s;

	near_shared_ids_stats(&shared, &s, sizeof(s));
	return s;
}

/* One that is exchanged for a lower one counts twice. */
static const char *check_shared(struct bench_run *run)
{
	struct near_shared_ids_stats s = shared_stats();

	if (s.hits + s.allocations < run->done)
		return bench_compare(s.hits + s.allocations, run->done);
	return s.used ? "wrong result: an id is in use after all were released" : NULL;
}

BENCH_CHECK(check_shared_passed, bench_compare(shared_stats().transfers, run->done))

/* ---- loops ---- */

#define BITMAP(kind)                                                                               \
	static void work_##kind(struct bench_thread *t)                                            \
	{                                                                                          \
		for (uint64_t i = 0; i < t->iterations; i++) {                                     \
			int id = take_##kind();                                                    \
                                                                                                   \
			BENCH_USE(id);                                                             \
			BENCH_BARRIER();                                                           \
			give_##kind(id);                                                           \
			BENCH_BARRIER();                                                           \
		}                                                                                  \
	}

BITMAP(atomic)
BITMAP(mutex)

/* work: acquire and release. pass: to the other of two workers, and so on. */
#define SPACE(kind)                                                                                \
	static void work_##kind(struct bench_thread *t)                                            \
	{                                                                                          \
		struct near_worker w = {0};                                                        \
                                                                                                   \
		for (uint64_t i = 0; i < t->iterations; i++) {                                     \
			int id = take_##kind(&w);                                                  \
                                                                                                   \
			if (id < 0)                                                                \
				abort();                                                           \
			BENCH_USE(id);                                                             \
			BENCH_BARRIER();                                                           \
			give_##kind(&w);                                                           \
			BENCH_BARRIER();                                                           \
		}                                                                                  \
	}                                                                                          \
	static void pass_on_##kind(struct bench_thread *t)                                         \
	{                                                                                          \
		struct near_worker w[2] = {{0}, {0}};                                              \
                                                                                                   \
		if (take_##kind(&w[0]) < 0)                                                        \
			abort();                                                                   \
		for (uint64_t i = 0; i < t->iterations; i++) {                                     \
			BENCH_USE(pass_##kind(&w[i & 1], &w[~i & 1]));                             \
			BENCH_BARRIER();                                                           \
		}                                                                                  \
		give_##kind(&w[t->iterations & 1]);                                                \
	}

SPACE(near)
SPACE(shared)

/* A word that names the worker that runs: the least that a hand-over can do. */
static void pass_on_plain(struct bench_thread *t)
{
	int ids[2] = {1, 0};

	for (uint64_t i = 0; i < t->iterations; i++) {
		__asm__ volatile("" : "+m"(ids));
		ids[~i & 1] = ids[i & 1];
		ids[i & 1] = 0;
	}
	__asm__ volatile("" : "+m"(ids));
}

/* ---- tables ---- */

static const unsigned one_two_eight[] = {1, 2, 8, 0};

#define OURS(kind, how, test) .setup = setup_##kind, .work = how##_##kind, .check = check_##test

static const struct bench_row rows[] = {
	{"mutex", "mutexed bitmap", .setup = setup_mutex, .work = work_mutex, .check = check_mutex},
	{"bitmap", "atomic bitmap", .work = work_atomic, .check = check_atomic},
	{"near-off", "near_idspace, rseq off", BENCH_OFF, OURS(near, work, near)},
	{"near", "near_idspace", BENCH_LIVE, OURS(near, work, near)},
	{"pair", "two CAS, a line of its own", BENCH_YARDSTICK, .work = work_pair},
	{"gettid", "gettid()", BENCH_YARDSTICK, .work = work_gettid},
	{"local", "thread-local id", BENCH_YARDSTICK, .work = work_local},
};

static const struct bench_row shared_rows[] = {
	{"mutex", "robust mutexed bitmap", .setup = setup_robust, .work = work_mutex,
	 .check = check_mutex},
	{"bitmap", "atomic bitmap", .work = work_atomic, .check = check_atomic},
	{"near-off", "near_shared_ids, rseq off", BENCH_OFF, OURS(shared, work, shared)},
	{"near", "near_shared_ids", BENCH_LIVE, OURS(shared, work, shared)},
	{"pair", "two CAS, a line of its own", BENCH_YARDSTICK, .work = work_pair},
};

static const struct bench_row passed_rows[] = {
	{"bitmap", "atomic bitmap, given, taken", .work = work_atomic, .check = check_atomic},
	{"again", "near_idspace, acquired again", BENCH_LIVE, OURS(near, work, near)},
	{"near", "near_idspace", BENCH_OURS, OURS(near, pass_on, passed)},
	{"shared", "near_shared_ids", BENCH_OURS, OURS(shared, pass_on, shared_passed)},
	{"pair", "two CAS, a line of its own", BENCH_YARDSTICK, .work = work_pair},
	{"plain", "a word moved", BENCH_YARDSTICK, .work = pass_on_plain},
};

#define AGAINST_BITMAP                                                                             \
	{                                                                                          \
		"acquire and release against one atomic bitmap", "near", "bitmap",                 \
			.goal = 1.0 / 4, .from = 2, .to = 2                                        \
	}

BENCH(bench_idspace, "idspace", "private", "Ids for workers, in one process",
      "an acquire and release",
      "Each thread acquires an id for a worker and releases it. The bitmaps give the lowest free "
      "id; what the yardsticks return is no small number, or is not given back. ",
      rows,
      BENCH_FIGURES({"acquire and release, in ns", "near", .goal = 5, .to = 2}, AGAINST_BITMAP),
      .thread_list = one_two_eight);

BENCH(bench_idspace_shared, "idspace", "shared", "Ids for workers, in memory that processes share",
      "an acquire and release",
      "As in one process, with ids that come back when a process is killed. The threads are of one "
      "process: the memory is the same for others. With the atomic bitmap an id is lost when a "
      "process is killed. ",
      shared_rows,
      BENCH_FIGURES({"acquire and release against two atomic operations", "near", "pair", .goal = 1,
		     .to = 2},
		    AGAINST_BITMAP),
      .thread_list = one_two_eight);

BENCH(bench_idspace_passed, "idspace", "hand-over", "Ids handed to the next worker", "a hand-over",
      "Each thread hands its id from one of two workers to the other. A hand-over has no sequence: "
      "it is the same without rseq. ",
      passed_rows,
      BENCH_FIGURES({"a hand-over, in ns", "near", .goal = 3, .to = 2},
		    {"a hand-over in a region against two atomic operations", "shared", "pair",
		     .goal = 1, .to = 2}),
      .thread_list = one_two_eight);
