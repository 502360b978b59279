/* SPDX-License-Identifier: MIT */
/* The background thread: the decay of an idle process. */
#define _GNU_SOURCE
#include "malloc/cache/background.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "malloc/base/conf.h"
#include "malloc/cache/cache.h"
#include "malloc/cache/shard.h"
#include "malloc/central/central.h"
#include "malloc/pages/pages.h"

#define PERIOD_MS 250
#define STACK ((size_t)128 << 10)

static bool may_start;   /* constructors run: threads can be created */
static uint32_t started; /* a word: an atomic byte needs libatomic on riscv64 */

/* ---- the thread ---- */

static uint64_t taken_from(const struct near__cache *cache)
{
	uint64_t sum = 0;

	for (unsigned class = 1; class <= NEAR__SIZES; class ++)
		sum += __atomic_load_n(&cache->entries[class].count, __ATOMIC_RELAXED);
	return sum;
}

/* A slot whose counts did not change for the decay time is idle, and is emptied. This interrupts
 * the CPUs that run the process, but only once: the counts must change before the next time. */
static void check_slot(struct near__cache *cache, unsigned slot, uint64_t now)
{
	uint64_t seen = taken_from(cache);

	if (seen != cache->seen) {
		cache->seen = seen;
		cache->seen_at = now;
		cache->drained = false;
	} else if (!cache->drained && now - cache->seen_at >= near__malloc_conf.decay_ms) {
		near__drain_slot(slot);
		cache->drained = true;
	}
}

static void check_slots(uint64_t now)
{
	for (unsigned s = 0; near__cache_next(&s); s++) {
		struct near__cache *cache = near_percpu_at(near__heap.caches, s);

		if (__atomic_load_n(&cache->due, __ATOMIC_RELAXED))
			check_slot(cache, s, now);
	}
}

static void *run(void *unused)
{
	const struct timespec period = {0, PERIOD_MS * 1000000L};

	for (;;) {
		nanosleep(&period, NULL);
		check_slots(near__os_ms());
		near__shards_decay(near__os_ms());
		near__central_decay(false);
		near__pages_purge(near__malloc_conf.decay_ms, SIZE_MAX);
	}
	return unused;
}

/* ---- start ---- */

/* It blocks all signals, so that the program's handlers run in the program's threads. */
static bool create(void)
{
	sigset_t all, saved;
	pthread_attr_t attr;
	pthread_t thread;
	int failed;

	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	failed = pthread_create(&thread, &attr, run, NULL);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&attr);
	return !failed;
}

void near__background_start(void)
{
	uint32_t no = 0;

	if (NEAR__LIKELY(!near__malloc_conf.background) || !may_start)
		return;
	/* One thread starts it; pthread_create allocates, and calls this again. */
	if (__atomic_compare_exchange_n(&started, &no, 1, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED) &&
	    !create())
		__atomic_store_n(&started, 0, __ATOMIC_RELAXED);
}

void near__background_fork_child(void)
{
	started = 0;
}

void near__background_allow(void)
{
	may_start = true;
}
