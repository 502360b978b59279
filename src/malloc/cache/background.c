/* SPDX-License-Identifier: MIT */
/* The background thread: the decay of an idle process.
 *
 * It works every quarter of a second. Once nothing is left to give back it sleeps for LONG_MS, or
 * until a thread takes a slow path. That thread checks one word, without a fence: if it misses the
 * sleeper, the memory waits until the sleep ends. So does what other threads free without a slow
 * path. */
#define _GNU_SOURCE
#include "base/signals.h"
#include "malloc/cache/background.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/identity.h"
#include "base/self.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"
#include "malloc/pages/pages.h"

#define PERIOD_MS 250
#define LONG_MS 8000
/* Periods without anything to give back: shards give half of their lists at a time, and what one
 * period gives to the central lists, the next gives to spans. */
#define QUIET_PERIODS 8

/* What the word is. STOPS: the thread ends as soon as it can. */
enum { WORKS, SLEEPS, STOPS };
enum { NONE, STARTS, RUNS, ENDS };

/* The words that threads share are accessed relaxed, except for `state`: each is used by itself. */
static bool may_start; /* from the constructors to the end of the first thread */
static bool is_child;  /* of a fork: `auto` starts no thread in it */
static uint32_t state; /* a word: an atomic byte needs libatomic on riscv64 */
static uint32_t word;  /* a futex */
static pthread_t thread;
static pid_t thread_id;         /* written by the thread, read after its end */
static uint32_t own;            /* the process that may start and end it, see base/identity.h */
static pthread_key_t first_key; /* of the first thread alone */
static bool has_key;

/* ---- the thread ---- */

/* A hash of all lists (FNV-1a, by words). Returns whether there are any; a class that is closed, or
 * not in use yet, has none. */
static bool hash_lists(const struct near__cache *cache, uint64_t *hash)
{
	bool any = false;

	*hash = UINT64_C(0xcbf29ce484222325);
	for (unsigned class = 1; class <= NEAR__SIZES; class ++) {
		uint64_t list = __atomic_load_n(&cache->entries[class].list, __ATOMIC_RELAXED);
		uint32_t lists = __atomic_load_n(&cache->transfers[class], __ATOMIC_RELAXED);

		any |= !near__list_is_empty(list) || lists - 2 < NEAR__MOST_LISTS;
		*hash = (*hash ^ list) * UINT64_C(0x100000001b3);
	}
	return any;
}

/* A slot whose lists were the same at each check of the decay time is idle, and is emptied. This
 * interrupts the CPUs that run the process, but only once: an empty slot is left alone. A busy slot
 * may have had the same lists at each check, such as one that allocates and frees a single block
 * over and over. It loses its lists then, once in the decay time, which costs a refill.
 * Returns whether the slot was empty already. */
static bool check_slot(struct near__cache *cache, unsigned slot, uint64_t now)
{
	uint64_t seen;
	bool any = hash_lists(cache, &seen);

	if (seen != cache->seen) {
		cache->seen = seen;
		cache->seen_at = now;
	} else if (any && now - cache->seen_at >= near__malloc_conf.decay_ms) {
		near__drain_slot(slot);
	}
	return !any;
}

static bool check_slots(uint64_t now)
{
	bool empty = true;

	for (unsigned s = 0; near__cache_next(&s); s++) {
		struct near__cache *cache = near_percpu_at(near__heap.caches, s);

		if (__atomic_load_n(&cache->due, __ATOMIC_RELAXED))
			empty &= check_slot(cache, s, now);
	}
	return empty;
}

/* Returns whether there was nothing to do, now or later. */
static bool background_give_back(void)
{
	struct near__pages_stats pages;
	bool empty;

	if (near__malloc_conf.decay_ms == UINT64_MAX) /* M_TRIM_THRESHOLD */
		return true;
	empty = check_slots(near__os_ms());
	near__shards_decay(near__os_ms());
	near__central_decay(false);
	near__pages_purge(near__malloc_conf.decay_ms, SIZE_MAX);
	near__pages_stats(&pages);
	return empty && !pages.dirty;
}

void (*near__each_slow_path)(void);

static void step_run(void)
{
	void (*step)(void) = __atomic_load_n(&near__each_slow_path, __ATOMIC_RELAXED);

	if (NEAR__UNLIKELY(step != NULL))
		step();
}

/* STOPS: the thread has ended, or is about to, although the state is RUNS. */
void near__step(void)
{
	if (__atomic_load_n(&state, __ATOMIC_RELAXED) != RUNS ||
	    __atomic_load_n(&word, __ATOMIC_RELAXED) == STOPS)
		step_run();
}

/* Sleeps for `ms`, or as long as the word is `now`. Relaxed: it orders nothing. Returns false if
 * the thread has to end: the word is STOPS, or the system does not let it sleep. */
static bool sleep_for(long ms, uint32_t now)
{
	uint32_t works = WORKS, sleeps = SLEEPS;
	int err;

	if (now == SLEEPS)
		__atomic_compare_exchange_n(&word, &works, SLEEPS, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	err = near__futex_sleep(&word, now, (int64_t)ms * 1000000, false);
	if (err && err != -ETIMEDOUT && err != -EAGAIN && err != -EINTR)
		return false;
	__atomic_compare_exchange_n(&word, &sleeps, WORKS, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return __atomic_load_n(&word, __ATOMIC_RELAXED) != STOPS;
}

static void *background_run(void *unused)
{
	unsigned quiet = 0;
	bool goes_on = true;

	thread_id = (pid_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, "near-malloc");
	while (goes_on) {
		if (quiet < QUIET_PERIODS)
			goes_on = sleep_for(PERIOD_MS, WORKS);
		else
			goes_on = sleep_for(LONG_MS, SLEEPS);
		quiet = !goes_on || background_give_back() ? quiet + 1 : 0;
		step_run();
	}
	return unused;
}

static void set_word(uint32_t value)
{
	__atomic_store_n(&word, value, __ATOMIC_RELAXED);
	near__futex_wake(&word, 1, false);
}

void near__background_wake(void)
{
	uint32_t sleeps = SLEEPS;

	if (NEAR__UNLIKELY(__atomic_load_n(&word, __ATOMIC_RELAXED) == SLEEPS) &&
	    __atomic_compare_exchange_n(&word, &sleeps, WORKS, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		near__futex_wake(&word, 1, false);
}

/* ---- start ---- */

/* The first thread ends by pthread_exit, or is cancelled. The process must end with the last thread
 * of the program. */
static void at_first_exit(void *unused)
{
	(void)unused;
	__atomic_store_n(&may_start, false, __ATOMIC_RELAXED);
	set_word(STOPS);
}

static bool is_first_thread(void)
{
	return syscall(SYS_gettid) == getpid();
}

static bool watch_first_thread(void)
{
	if (!has_key)
		has_key = pthread_key_create(&first_key, at_first_exit) == 0;
	return has_key && pthread_setspecific(first_key, &first_key) == 0;
}

/* It blocks all signals, so that the program's handlers run in the program's threads. Its stack has
 * the default size: glibc places thread-local storage there, which may need any part of a small
 * one. */
static bool background_create(void)
{
	sigset_t saved;
	int failed;

	if (is_first_thread() && !watch_first_thread())
		return false;
	near__signals_block(&saved);
	failed = pthread_create(&thread, NULL, background_run, NULL);
	near__signals_restore(&saved);
	return !failed;
}

/* A vfork child shares the memory of its parent, but no thread of it. */
static bool is_own_process(void)
{
	return near__storage_is_own() && near__identity_is(__atomic_load_n(&own, __ATOMIC_RELAXED));
}

/* One thread starts it; pthread_create allocates, and calls this again. Release: pairs with the
 * acquire of the thread that ends it. */
static void background_start(void)
{
	uint32_t none = NONE;
	int saved = errno;

	if (__atomic_load_n(&state, __ATOMIC_RELAXED) == NONE && is_own_process() &&
	    __atomic_compare_exchange_n(&state, &none, STARTS, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		__atomic_store_n(&state, background_create() ? RUNS : NONE, __ATOMIC_RELEASE);
	errno = saved;
}

void near__background_start(void)
{
	if (NEAR__UNLIKELY(near__malloc_conf.background == NEAR__BACKGROUND_ON) &&
	    __atomic_load_n(&may_start, __ATOMIC_RELAXED))
		background_start();
}

void near__background_start_automatically(void)
{
	if (near__heap_has_begun() && !is_child &&
	    near__malloc_conf.background == NEAR__BACKGROUND_AUTO &&
	    near__malloc_conf.decay_ms != UINT64_MAX &&
	    __atomic_load_n(&state, __ATOMIC_RELAXED) == NONE && is_first_thread())
		background_start();
}

/* ---- end ---- */

/* The kernel counts the thread for a moment after the join. */
void near__background_end(void)
{
	uint32_t runs = RUNS;
	int saved = errno, cancel;

	if (!is_own_process() || !__atomic_compare_exchange_n(&state, &runs, ENDS, false,
							      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	set_word(STOPS);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_join(thread, NULL);
	pthread_setcancelstate(cancel, NULL);
	while (syscall(SYS_tgkill, getpid(), thread_id, 0) == 0)
		sched_yield();
	set_word(WORKS);
	__atomic_store_n(&state, NONE, __ATOMIC_RELEASE);
	errno = saved;
}

void near__background_fork_child(void)
{
	is_child = true;
	/* Atomic, as a thread of the parent may have loaded them: ThreadSanitizer knows no fork. */
	__atomic_store_n(&own, near__identity_fork_child(), __ATOMIC_RELAXED);
	__atomic_store_n(&state, NONE, __ATOMIC_RELAXED);
	__atomic_store_n(&word, WORKS, __ATOMIC_RELAXED);
}

void near__background_init(void)
{
	__atomic_store_n(&own, near__identity_begin(), __ATOMIC_RELAXED);
}

void near__background_allow(void)
{
	__atomic_store_n(&may_start, true, __ATOMIC_RELAXED);
}
