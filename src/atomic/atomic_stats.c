/* SPDX-License-Identifier: MIT */
/* NEAR_CONF=atomic_stats:1: prints statistics of the locks to standard error at exit. Operations
 * pay nothing for them: a lock's word contains how often it was taken, and the other counters
 * change only in slow paths. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "atomic/table.h"
#include "atomic/wide.h"
#include "base/conf.h"

struct conf {
	int stats;
};

static const struct near__setting list[] = {
	{"atomic_stats", "0", offsetof(struct conf, stats), 0},
	{"atomic_stats", "1", offsetof(struct conf, stats), 1},
};

static const struct near__settings settings = {
	.list = list,
	.count = sizeof(list) / sizeof(list[0]),
	.prefixes = near__conf_atomic_prefixes,
	.prefix_count = 1,
	.own = 1,
};

static struct conf conf;

__attribute__((constructor)) static void stats_begin(void)
{
	near__conf_read_part(&settings, &conf);
}

struct sums {
	uint64_t sections, most, spun, yielded, slept, loads, nested;
	unsigned used;
};

static uint64_t sums_get(const uint32_t *n)
{
	return __atomic_load_n(n, __ATOMIC_RELAXED);
}

static void sums_add(struct sums *sums, const struct near__atomic_lock *l)
{
	/* The version of a held lock is known only if its holder took several. */
	uint64_t word = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
	uint64_t n = (word & 1 ? l->version : word) / 2 - sums_get(&l->retries);

	sums->sections += n;
	sums->used += n != 0;
	if (n > sums->most)
		sums->most = n;
	sums->spun += sums_get(&l->spun);
	sums->yielded += sums_get(&l->yielded);
	sums->slept += sums_get(&l->slept);
	sums->loads += sums_get(&l->loads);
	sums->nested += sums_get(&l->nested);
}

__attribute__((destructor)) static void stats_end(void)
{
	static const char *const names[] = NEAR__WIDE_NAMES;
	struct sums sums = {0};
	int pid = (int)getpid();

	if (!conf.stats ||
	    __atomic_exchange_n(&near__atomic_locks.reported, pid, __ATOMIC_RELAXED) == pid)
		return;
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++)
		sums_add(&sums, &near__atomic_locks.locks[i]);
	dprintf(2,
		"nearcpu: libatomic [%d]: 16 bytes by %s; %" PRIu64 " sections under %u of %d "
		"locks, %" PRIu64 " under the busiest\n"
		"nearcpu: libatomic [%d]: waited: %" PRIu64 " spun, %" PRIu64 " yielded, %" PRIu64
		" slept; %" PRIu64 " loads took a lock; %" PRIu64
		" operations of signal handlers within another\n",
		pid, names[near__wide_mode()], sums.sections, sums.used, NEAR__ATOMIC_LOCKS,
		sums.most, pid, sums.spun, sums.yielded, sums.slept, sums.loads, sums.nested);
}
